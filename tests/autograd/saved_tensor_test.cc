// Tensors kept for backward: changes in between, and hooks that pack and unpack them.
#include "tenon/autograd/saved_tensor.h"

#include <catch2/catch.hpp>
#include <thread>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/gradcheck.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/linear.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"

namespace tenon {
namespace {

using Catch::Contains;
using Numbers = std::vector<double>;

Tensor leaf(const Numbers& values) {
  const auto size = static_cast<int64_t>(values.size());
  return set_requires_grad(from_vector(values, {size}));
}

TEST_CASE("saved tensors: a change in place before backward is named") {
  const Tensor weight = set_requires_grad(ones({2, 2})), x = set_requires_grad(ones({1, 2}));
  const Tensor loss = sum(linear(x, weight));
  {
    const NoGrad no_grad;
    mul_(weight, 2);
  }
  CHECK_THROWS_WITH(
      loss.backward(),
      testing::here("[linear] saved weight f32 (2, 2) on cpu was changed in place before backward: "
                    "it is at version 1, wanted 0 (clone it, or change it after backward)"));
  // An op that does not read what was changed does not mind.
  const Tensor a = leaf({1, 2});
  const Tensor sum_of_a = sum(a + a);
  {
    const NoGrad no_grad;
    fill_(a, 0);
  }
  CHECK_NOTHROW(sum_of_a.backward());
}

TEST_CASE("saved tensors: released memory that comes back is no change") {
  const Tensor a = leaf({1, 2});
  const Tensor loss = sum(a * a);
  Storage& storage = *a.storage();
  storage.release();
  CHECK_THROWS_WITH(backward(loss, {.retain_graph = true}), Contains("read of released memory"));
  storage.materialize();
  const float values[] = {3, 4};
  copy_bytes(a.raw_data(), a.device(), values, kCpu, sizeof(values));
  loss.backward();
  CHECK(a.grad().to_vector() == Numbers{6, 8});
}

TEST_CASE("saved tensors: hooks pack what is saved and unpack it in backward") {
  int packed = 0, unpacked = 0;
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  Tensor loss;
  {
    const SavedTensorHooksScope scope({
        [&](const Tensor& x) -> std::shared_ptr<void> {
          ++packed;
          CHECK_FALSE(x.requires_grad());
          return std::make_shared<Numbers>(x.to_vector());
        },
        [&](const std::shared_ptr<void>& kept) {
          ++unpacked;
          const auto& values = *std::static_pointer_cast<Numbers>(kept);
          return from_vector(values, {static_cast<int64_t>(values.size())});
        },
    });
    loss = sum(exp(a * b));
  }
  CHECK(packed == 3);  // both operands and the exponential
  {
    // The packed form is what counts, whatever happens to the originals.
    const NoGrad no_grad;
    fill_(a, 0);
  }
  loss.backward();
  CHECK(unpacked == 3);
  CHECK(a.grad().to_vector()[0] == Approx(3 * std::exp(3)));
  CHECK(b.grad().to_vector()[1] == Approx(2 * std::exp(8)));
  sum(a * b).backward();  // outside the scope nothing is packed
  CHECK(packed == 3);
}

TEST_CASE("saved tensors: the inner of nested hooks packs, other threads do not notice") {
  std::string calls;
  auto named = [&](char name) {
    return SavedTensorHooks{
        [&calls, name](const Tensor& x) -> std::shared_ptr<void> {
          calls += name;
          return std::make_shared<Tensor>(x);
        },
        [](const std::shared_ptr<void>& kept) { return *std::static_pointer_cast<Tensor>(kept); }};
  };
  const Tensor a = leaf({1});
  const SavedTensorHooksScope outer(named('o'));
  square(a).backward();
  {
    const SavedTensorHooksScope inner(named('i'));
    square(a).backward();
  }
  square(a).backward();
  std::thread([] { square(leaf({1})).backward(); }).join();
  CHECK(calls == "oio");
  CHECK(a.grad().item() == 6);
}

TEST_CASE("saved tensors: an output that is packed whole does not keep its graph alive") {
  RankContext context;
  const RankContextScope counted(context);
  {
    const SavedTensorHooksScope scope({
        [](const Tensor& x) -> std::shared_ptr<void> { return std::make_shared<Tensor>(x); },
        [](const std::shared_ptr<void>& kept) { return *std::static_pointer_cast<Tensor>(kept); },
    });
    const Tensor y = exp(leaf({1, 2}));
  }
  CHECK(context.memory->live() == 0);
}

TEST_CASE("gradcheck: wrong gradients are found and named") {
  const Tensor x = set_requires_grad(from_vector({0.5, 1}, {2}, {.dtype = DType::f64}));
  auto wrong = [](const std::vector<Tensor>& in) {
    return record("wrong", square(in[0].detach()), {in[0]},
                  [x = in[0].detach()](const Tensor& grad, GradSinks& into) {
                    into[0].add(mul(x, grad));  // half of it
                  });
  };
  CHECK_THROWS_WITH(gradcheck("wrong", wrong, {x}),
                    Contains("[wrong] wrong gradient: input 0 (2) element 0 has"));
  CHECK_NOTHROW(
      gradcheck("square", [](const std::vector<Tensor>& in) { return square(in[0]); }, {x}));
  CHECK_THROWS_WITH(gradcheck("to", [](const auto& in) { return to(in[0], DType::f32); }, {x}),
                    Contains("[to] gradcheck wants an f64 output"));
}

}  // namespace
}  // namespace tenon
