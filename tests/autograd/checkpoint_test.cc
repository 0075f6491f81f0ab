// Activation checkpointing: the same bits, one backward, less memory.
#include "tenon/autograd/checkpoint.h"

#include <catch2/catch.hpp>

#include "tenon/autograd/autocast.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/hooks.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/dropout.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/linear.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using Catch::Contains;
using Numbers = std::vector<double>;

struct Setup {
  Tensor x = set_requires_grad(testing::random_tensor({4, 8}, DType::f32, 1));
  Tensor weight = set_requires_grad(testing::random_tensor({8, 8}, DType::f32, 2));

  // The weight is used twice, and dropout draws numbers.
  Tensor block(const Tensor& input) const {
    return linear(dropout(gelu(linear(input, weight)), 0.5, true), weight);
  }
};

TEST_CASE("checkpoint: values, gradients and random numbers are the same to the bit") {
  const Setup plain, kept;
  std::vector<Numbers> results[2];
  for (const bool recompute : {false, true}) {
    const Setup& setup = recompute ? kept : plain;
    seed(7);
    const auto body = [&](const Tensor& x) { return setup.block(x); };
    Tensor y = setup.x;
    for (int i = 0; i < 3; ++i) y = recompute ? checkpoint(body, y) : body(y);
    sum(y).backward();
    // What comes after backward draws the numbers that it would without.
    const Tensor later = dropout(ones({16}), 0.5, true);
    results[recompute ? 1 : 0] = {y.to_vector(), setup.x.grad().to_vector(),
                                  setup.weight.grad().to_vector(), later.to_vector()};
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("checkpoint: a parameter's hook runs once") {
  const Setup setup;
  int calls = 0;
  const HookHandle handle =
      register_post_accumulate_hook(setup.weight, [&](const Tensor&) { ++calls; });
  sum(checkpoint([&](const Tensor& x) { return setup.block(x); }, setup.x)).backward();
  CHECK(calls == 1);
}

TEST_CASE("checkpoint: only inputs are kept between forward and backward") {
  const Tensor x = set_requires_grad(ones({1000}));
  const auto body = [](const Tensor& input) { return exp(exp(exp(input * 0.1))); };
  MemoryCounters& memory = *rank_context().memory;
  const int64_t before = memory.live(Category::activation);
  const Tensor plain = body(x);
  const int64_t all = memory.live(Category::activation) - before;
  const Tensor y = checkpoint(body, x);
  const int64_t kept = memory.live(Category::activation) - before - all;
  CHECK(all >= 3 * 4000);
  CHECK(kept < 2 * 4000);
  sum(y).backward();
  CHECK(memory.live(Category::activation) - before - all <= kept);
}

TEST_CASE("checkpoint: nested, without recording, and an error inside") {
  const Tensor x = set_requires_grad(from_vector({1, 2}, {2}));
  const auto square_twice = [](const Tensor& input) {
    return square(checkpoint([](const Tensor& inner) { return square(inner); }, input));
  };
  sum(checkpoint(square_twice, x)).backward();
  CHECK(x.grad().to_vector() == Numbers{4, 32});
  {
    const NoGrad no_grad;
    CHECK(checkpoint(square_twice, x).to_vector() == Numbers{1, 16});
  }
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& input) {
        if (++runs == 2) fail("test", "second run");
        return square(input);
      },
      x);
  CHECK_THROWS_WITH(sum(y).backward(), Contains("second run"));
  sum(checkpoint(square_twice, x)).backward();  // nothing is left behind
}

TEST_CASE("checkpoint: a changed parameter and a block that does other work are refused") {
  const Setup setup;
  const Tensor y = sum(checkpoint([&](const Tensor& x) { return setup.block(x); }, setup.x));
  {
    const NoGrad no_grad;
    mul_(setup.weight, 2);
  }
  CHECK_THROWS_WITH(y.backward(),
                    Contains("[checkpoint] a tensor that the block read was changed"));
  int runs = 0;
  const Tensor other = sum(checkpoint(
      [&](const Tensor& x) { return ++runs == 1 ? square(square(x)) : square(x); }, setup.x));
  CHECK_THROWS_WITH(other.backward(), Contains("[checkpoint] the block did other work"));
  runs = 0;
  const Tensor narrow = sum(checkpoint(
      [&](const Tensor& x) { return square(++runs == 1 ? x : reshape(x, {32})); }, setup.x));
  CHECK_THROWS_WITH(narrow.backward(),
                    Contains(testing::here("f32 (32) on cpu, wanted f32 (4, 8) on cpu")));
}

TEST_CASE("checkpoint: running again ends with the last tensor that was saved") {
  const Setup setup;
  int ends = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& x) {
        const Tensor result = linear(gelu(x), setup.weight);
        ++ends;
        return result;
      },
      setup.x);
  sum(y).backward();
  CHECK(ends == 1);
}

TEST_CASE("checkpoint: running again computes in the dtype of forward's autocast") {
  const Setup setup;
  std::vector<std::optional<DType>> seen;
  const auto body = [&](const Tensor& x) {
    seen.push_back(autocast_dtype());
    return square(x);
  };
  Tensor y;
  {
    const Autocast scope(DType::bf16);
    y = sum(checkpoint(body, setup.x));
  }
  CHECK(!autocast_dtype());
  y.backward();
  CHECK(seen == std::vector<std::optional<DType>>{DType::bf16, DType::bf16});
}

}  // namespace
}  // namespace tenon
