// Backward: when gradients arrive, where they are kept, and what an error leaves behind.
#include "tenon/autograd/engine.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/hooks.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"

namespace tenon {
namespace {

using testing::here;

using Catch::Contains;
using Numbers = std::vector<double>;

Tensor leaf(const Numbers& values, DType dtype = DType::f32) {
  const auto size = static_cast<int64_t>(values.size());
  return set_requires_grad(from_vector(values, {size}, {.dtype = dtype}));
}

TEST_CASE("engine: gradients accumulate over uses and over backwards") {
  const Tensor a = leaf({2, 3});
  sum(a * a + a).backward();  // three uses
  CHECK(a.grad().to_vector() == Numbers{5, 7});
  sum(a).backward();
  CHECK(a.grad().to_vector() == Numbers{6, 8});
  zero_grad(a);
  CHECK_FALSE(a.grad().defined());
  sum(a).backward();
  CHECK(a.grad().to_vector() == Numbers{1, 1});
}

TEST_CASE("engine: zero_grad keeps the memory and forgets the values") {
  const Tensor a = leaf({2, 3});
  CHECK_FALSE(a.grad().defined());
  CHECK_FALSE(grad_slot(a).defined());
  sum(a * a).backward();
  void* const place = a.grad().raw_data();
  zero_grad(a);
  CHECK_FALSE(a.grad().defined());
  CHECK(grad_slot(a).raw_data() == place);
  sum(a).backward();
  CHECK(a.grad().raw_data() == place);
  CHECK(a.grad().to_vector() == Numbers{1, 1});
}

TEST_CASE("engine: the memory of a leaf's gradient is counted as gradient") {
  RankContext context;
  const RankContextScope scope(context);
  const Tensor a = leaf({1, 2, 3, 4});
  sum(a * a).backward();
  CHECK(context.memory->live(Category::gradient) == 16);
}

TEST_CASE("engine: two owners never share a gradient") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  sum(a + b).backward();
  fill_(a.grad(), 50);
  CHECK(b.grad().to_vector() == Numbers{1, 1});
  // Nor does a leaf share one with the caller's own gradient.
  const Tensor c = leaf({1, 2}), given = ones({2});
  backward(reshape(c, {2, 1}), {.gradient = reshape(given, {2, 1})});
  fill_(c.grad(), 9);
  CHECK(given.to_vector() == Numbers{1, 1});
}

TEST_CASE("engine: a gradient shared on its way is not added to in place") {
  const Tensor a = leaf({1, 2});
  const Tensor x = a * 1, y = a * 1;
  Tensor seen;
  register_grad_hook(x, [&](const Tensor& grad) { seen = grad; });
  // x and y get one gradient; y gets more from elsewhere.
  sum((x + y) + y * 10).backward();
  CHECK(seen.to_vector() == Numbers{1, 1});
  CHECK(a.grad().to_vector() == Numbers{12, 12});
}

TEST_CASE("engine: a given gradient is used and not changed") {
  const Tensor a = leaf({1, 2});
  const Tensor gradient = from_vector({10, 100}, {2});
  const Tensor x = a * 2;
  backward(x + x, {.gradient = gradient});
  CHECK(a.grad().to_vector() == Numbers{40, 400});
  CHECK(gradient.to_vector() == Numbers{10, 100});
  CHECK_THROWS_WITH(backward(a * 2, {.gradient = ones({3})}),
                    here("[backward] wrong gradient: given f32 (3) on cpu, wanted f32 (2) on cpu"));
  CHECK_THROWS_WITH(backward(a * 2, {.gradient = ones({2}, {.dtype = DType::f64})}),
                    Contains("[backward] wrong gradient"));
  CHECK_THROWS_WITH((a * 2).backward(),
                    "[backward] root of more than one element: given shape (2), wanted one element "
                    "or a gradient of that shape");
}

TEST_CASE("engine: a leaf may be the root") {
  const Tensor a = leaf({7});
  int calls = 0;
  register_post_accumulate_hook(a, [&](const Tensor&) { ++calls; });
  a.backward();
  backward(a, {.gradient = full({1}, 4)});
  CHECK(a.grad().item() == 5);
  CHECK(calls == 2);
}

TEST_CASE("engine: what requires no gradient gets none and cannot be a root") {
  const Tensor a = leaf({1, 2}), b = ones({2}), frozen = set_requires_grad(leaf({5, 6}), false);
  sum(a * b * frozen).backward();
  CHECK(a.grad().to_vector() == Numbers{5, 6});
  CHECK_FALSE(b.grad().defined());
  CHECK_FALSE(frozen.grad().defined());
  CHECK_THROWS_WITH(sum(b * frozen).backward(), Contains("[backward] nothing to differentiate"));
  CHECK_THROWS_WITH(backward(b), Contains("[backward] nothing to differentiate"));
  CHECK_THROWS_WITH(
      set_requires_grad(arange(2)),
      testing::here("[set_requires_grad] no gradients for this dtype: given i64 (2) on cpu, wanted "
                    "a floating dtype"));
  CHECK_NOTHROW(set_requires_grad(arange(2), false));
  CHECK_THROWS_WITH(set_requires_grad(a * 2, false), Contains("[autograd] not a leaf"));
}

TEST_CASE("engine: NoGrad records nothing, per scope and per thread") {
  const Tensor a = leaf({1, 2});
  {
    const NoGrad no_grad;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE((a * 2).requires_grad());
    {
      const GradMode again(true);
      CHECK((a * 2).requires_grad());
    }
    CHECK_FALSE(grad_enabled());
  }
  CHECK((a * 2).requires_grad());
  CHECK_FALSE((a.detach() * 2).requires_grad());
}

TEST_CASE("engine: a graph can be used once, or kept") {
  const Tensor a = leaf({1, 2});
  const Tensor loss = sum(a * a);
  backward(loss, {.retain_graph = true});
  backward(loss, {.retain_graph = true});
  CHECK(a.grad().to_vector() == Numbers{4, 8});
  loss.backward();
  CHECK_THROWS_WITH(loss.backward(),
                    Contains("[backward] the graph was used up by an earlier backward at op ") &&
                        Contains("wanted a fresh forward, or retain_graph in the first backward"));
  CHECK(a.grad().to_vector() == Numbers{6, 12});
  // A part of the graph that is used up is found before anything runs.
  const Tensor x = a * a;
  sum(x).backward();
  zero_grad(a);
  CHECK_THROWS_WITH(sum(x + a).backward(), Contains("used up by an earlier backward at op mul"));
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("engine: memory of saved tensors is freed while backward runs and after it") {
  RankContext context;
  const RankContextScope scope(context);
  const Tensor a = set_requires_grad(ones({1000}));
  const Tensor loss = sum(exp(exp(exp(a))));
  const int64_t recorded = context.memory->live(Category::activation);
  loss.backward();
  // The leaf and the loss are alive, nothing else.
  CHECK(context.memory->live(Category::activation) == 4000 + 4);
  CHECK(recorded > 3 * 4000);
}

TEST_CASE("engine: a backward inside a backward is refused") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor other = sum(b * 2);
  register_post_accumulate_hook(a, [&](const Tensor&) {
    CHECK(in_backward());
    other.backward();
  });
  CHECK_THROWS_WITH(
      sum(a * 2).backward(),
      "[backward] called inside a backward: second-order gradients are not supported");
  CHECK_FALSE(in_backward());
  CHECK_FALSE(b.grad().defined());
}

TEST_CASE("engine: gradients are computed without recording") {
  const Tensor a = leaf({1, 2});
  bool recording = true;
  register_grad_hook(a * 1, [](const Tensor&) {});
  register_post_accumulate_hook(a, [&](const Tensor& grad) {
    recording = grad_enabled();
    CHECK_FALSE(grad.requires_grad());
  });
  sum(a * a).backward();
  CHECK_FALSE(recording);
  CHECK(grad_enabled());
  CHECK_FALSE(a.grad().requires_grad());
}

TEST_CASE("engine: an exception leaves no state behind") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  for (const bool in_hook : {true, false}) {
    bool throws = true;
    HookHandle hook;
    if (in_hook) {
      hook = register_post_accumulate_hook(a, [&](const Tensor&) {
        if (throws) fail("hook", "not now");
      });
    }
    auto forward = [&] {
      const Tensor x = a * b;
      return sum(
          in_hook ? x
                  : record("custom", x.detach() * 1, {x}, [&](const Tensor& grad, GradSinks& into) {
                      if (throws) fail("custom", "not now");
                      into[0].add(grad);
                    }));
    };
    CHECK_THROWS_WITH(forward().backward(), Contains("not now"));
    CHECK_FALSE(in_backward());
    CHECK(grad_enabled());
    throws = false;
    zero_grad(a);
    zero_grad(b);
    forward().backward();
    CHECK(a.grad().to_vector() == Numbers{3, 4});
    CHECK(b.grad().to_vector() == Numbers{1, 2});
    hook.remove();
  }
}

TEST_CASE("engine: a wrong gradient of a backward function is named") {
  const Tensor a = leaf({1, 2});
  auto custom = [&](const Tensor& gradient) {
    return record("custom", ones({2}), {ones({2}), a}, [gradient](const Tensor&, GradSinks& into) {
      CHECK_FALSE(into[0].needed());
      into[1].add(gradient);
    });
  };
  CHECK_THROWS_WITH(
      sum(custom(ones({3}))).backward(),
      here("[custom] wrong gradient for input 1: given f32 (3) on cpu, wanted f32 (2)"));
  CHECK_THROWS_WITH(sum(custom(ones({2}, {.dtype = DType::f64}))).backward(),
                    Contains("[custom] wrong gradient for input 1: given f64"));
}

TEST_CASE("engine: gradients that nobody wants are dropped") {
  const Tensor a = leaf({1, 2});
  const Tensor y =
      record("custom", ones({2}), {ones({2}), a, zeros({2})}, [](const Tensor& g, GradSinks& into) {
        into[0].add(g);
        into[1].add(g);
        into[2].write([](Tensor&, bool) { FAIL("nobody asked"); });
        into[2].write_wider([](Tensor&, bool) { FAIL("nobody asked"); });
      });
  sum(y).backward();
  CHECK(a.grad().to_vector() == Numbers{1, 1});
}

TEST_CASE("engine: threads run their own backwards at once") {
  std::vector<Numbers> results(4);
  std::vector<std::thread> threads;
  for (size_t id = 0; id < results.size(); ++id) {
    threads.emplace_back([&results, id] {
      RankContext context(static_cast<int>(id), 4);
      context.threads = 1;
      const RankContextScope scope(context);
      const Tensor a = leaf({1, 2, static_cast<double>(id)});
      for (int step = 0; step < 50; ++step) {
        zero_grad(a);
        sum(square(a * a) + exp(a)).backward();
      }
      results[id] = a.grad().to_vector();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t id = 0; id < results.size(); ++id) {
    const auto x = static_cast<double>(id);
    CHECK(results[id][1] == Approx(32 + std::exp(2.0)));
    CHECK(results[id][2] == Approx(4 * x * x * x + std::exp(x)));
  }
}

TEST_CASE("engine: a deep graph is differentiated and destroyed without recursion", "[host]") {
  const Tensor a = leaf({1});
  for (const bool run : {true, false}) {
    Tensor x = a;
    for (int i = 0; i < 200000; ++i) x = affine(x, 1, 1);
    if (run) {
      x.backward();
      CHECK(a.grad().item() == 1);
    }
  }
}

TEST_CASE("engine: a wide graph is walked once") {
  // Each level doubles the number of paths: 2^60 paths, 60 nodes.
  const Tensor a = leaf({1}, DType::f64);
  Tensor x = a;
  for (int i = 0; i < 60; ++i) x = x + x;
  x.backward();
  CHECK(a.grad().item<double>() == std::ldexp(1.0, 60));
}

TEST_CASE("engine: the graph survives a hook that drops its root") {
  const Tensor a = leaf({1, 2});
  Tensor loss = sum(a * a * 3);
  register_post_accumulate_hook(a, [](const Tensor&) {});
  register_grad_hook(loss, [&](const Tensor&) { loss = Tensor(); });
  backward(loss);
  CHECK(a.grad().to_vector() == Numbers{6, 12});
}

TEST_CASE("engine: changes in place are refused while recording and count as versions") {
  const Tensor a = leaf({1, 2});
  CHECK_THROWS_WITH(
      fill_(a, 0),
      testing::here("[fill_] change in place of a tensor that requires a gradient: f32 (2) on cpu, "
                    "wanted NoGrad or an op that makes a new tensor"));
  CHECK_THROWS_WITH(copy_(a, ones({2})), Contains("[copy_] change in place"));
  CHECK_THROWS_WITH(add_(a * 2, ones({2})), Contains("[add_] change in place"));
  CHECK_THROWS_WITH(mul_(narrow(a, 0, 0, 1), 2), Contains("[mul_] change in place"));
  CHECK(a.version() == 0);
  const NoGrad no_grad;
  fill_(a, 3);
  add_(a, ones({2}), 0.5);
  mul_(a, 2);
  CHECK(a.to_vector() == Numbers{7, 7});
  copy_(narrow(a, 0, 1, 1), full({1}, 9, {.dtype = DType::f64}));
  CHECK(a.to_vector() == Numbers{7, 9});
  CHECK(a.version() == 4);
  CHECK_THROWS_WITH(copy_(a, ones({3})), Contains("[copy_]"));
  CHECK_THROWS_WITH(copy_(a, ones({2, 2})), Contains("[copy_] shapes do not fit"));
  CHECK_THROWS_WITH(add_(a, ones({1})), "[add_] shapes differ: given (2) and (1)");
}

}  // namespace
}  // namespace tenon
