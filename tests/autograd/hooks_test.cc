// Hooks on gradients, gradient slots and callbacks at the end of backward.
#include "tenon/autograd/hooks.h"

#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/index.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/matmul.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"

namespace tenon {
namespace {

using Catch::Contains;
using Numbers = std::vector<double>;
using Events = std::vector<std::string>;

Tensor leaf(const Numbers& values, DType dtype = DType::f32) {
  const auto size = static_cast<int64_t>(values.size());
  return set_requires_grad(from_vector(values, {size}, {.dtype = dtype}));
}

void log_gradient(const Tensor& tensor, const char* name, Events& events) {
  register_post_accumulate_hook(tensor, [name, &events](const Tensor&) { events.push_back(name); });
}

// x as it is; the event is written when its backward runs.
Tensor mark(const Tensor& x, const char* name, Events& events) {
  return record("mark", x.detach(), {x}, [name, &events](const Tensor& grad, GradSinks& into) {
    events.push_back(name);
    into[0].add(grad);
  });
}

TEST_CASE("hooks: a parameter's hook fires before backward goes on to older ops") {
  for (const bool parameter_first : {true, false}) {
    Events events;
    const Tensor x = leaf({1, 2}), w1 = leaf({3, 4}), w2 = leaf({5, 6});
    log_gradient(w1, "w1", events);
    log_gradient(w2, "w2", events);
    log_gradient(x, "x", events);
    auto times = [&](const Tensor& a, const Tensor& w) { return parameter_first ? w * a : a * w; };
    const Tensor h = mark(times(mark(x, "first", events), w1), "second", events);
    sum(mark(times(h, w2), "third", events)).backward();
    CHECK(events == Events{"third", "w2", "second", "w1", "first", "x"});
  }
}

TEST_CASE("hooks: a shared leaf's hook fires once, after the last of its uses") {
  Events events;
  const Tensor w = leaf({2, 3});
  log_gradient(w, "w", events);
  const Tensor a = mark(ones({2}) * w, "a", events);
  const Tensor b = mark(a * w, "b", events);
  const Tensor c = mark(b * w, "c", events);
  sum(c).backward();
  CHECK(events == Events{"c", "b", "a", "w"});
  CHECK(w.grad().to_vector() == Numbers{12, 27});
  sum(w).backward();
  CHECK(events.size() == 5);
}

TEST_CASE("hooks: a use that gets no gradient holds the hook back only to the end") {
  Events events;
  const Tensor w = leaf({2, 3}), v = leaf({4, 5});
  log_gradient(w, "w", events);
  log_gradient(v, "v", events);
  const Tensor dead = record("dead", ones({2}), {w * v},
                             [&](const Tensor&, GradSinks&) { events.push_back("dead"); });
  sum(mark(w * 2, "live", events) + dead).backward();
  CHECK(events == Events{"live", "dead", "w"});  // v got nothing: no hook
  CHECK(w.grad().to_vector() == Numbers{2, 2});
  CHECK_FALSE(v.grad().defined());
}

TEST_CASE("hooks: leaves that are complete only at the end follow in one order") {
  std::vector<Tensor> leaves;
  Events events;
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("w" + std::to_string(i));
  Tensor total = zeros({1}), dead = zeros({1});
  for (int i = 0; i < 20; ++i) {
    leaves.push_back(leaf({1}));
    log_gradient(leaves.back(), names[static_cast<size_t>(i)].c_str(), events);
    total = total + leaves.back();
    dead = dead + leaves.back();
  }
  const Tensor none = record("dead", ones({1}), {dead}, [](const Tensor&, GradSinks&) {});
  const Tensor loss = total + none;
  backward(loss, {.retain_graph = true});
  const Events first = events;
  events.clear();
  backward(loss);
  CHECK(first.size() == 20);
  CHECK(events == first);
  CHECK((first == names || first == Events(names.rbegin(), names.rend())));
}

TEST_CASE("hooks: a computed tensor's hook sees its complete gradient before its op runs") {
  Events events;
  const Tensor a = leaf({1, 2});
  const Tensor x = mark(a, "x runs", events);
  Tensor seen;
  HookHandle handle = register_grad_hook(x, [&](const Tensor& grad) {
    events.push_back("hook");
    seen = grad;
  });
  sum(x * 2 + x * 3).backward();
  CHECK(events == Events{"hook", "x runs"});
  CHECK(seen.to_vector() == Numbers{5, 5});
}

TEST_CASE("hooks: handles remove them, also from within and after their tensor's end") {
  const Tensor a = leaf({1, 2});
  int calls = 0;
  HookHandle handle;
  handle = register_post_accumulate_hook(a, [&](const Tensor&) {
    ++calls;
    handle.remove();
  });
  sum(a).backward();
  sum(a).backward();
  CHECK(calls == 1);
  handle.remove();
  HookHandle of_gone;
  {
    const Tensor gone = leaf({1});
    of_gone = register_grad_hook(gone, [&](const Tensor&) { ++calls; });
  }
  of_gone.remove();
  HookHandle().remove();
  // A handle that goes out of scope leaves its hook.
  {
    const HookHandle dropped = register_grad_hook(a, [&](const Tensor&) { ++calls; });
  }
  sum(a).backward();
  CHECK(calls == 2);
  CHECK_THROWS_WITH(register_grad_hook(ones({2}), [](const Tensor&) {}),
                    Contains("[register_grad_hook] no gradient will come"));
  CHECK_THROWS_WITH(register_post_accumulate_hook(a * 2, [](const Tensor&) {}),
                    Contains("[autograd] not a leaf"));
}

TEST_CASE("slots: gradients are written into the slot, which stays where it is") {
  const Tensor flat = full({5}, -1);
  const Tensor a = leaf({1, 2}), b = leaf({3, 4, 5});
  set_grad_slot(a, flat.alias(0, {2}));
  set_grad_slot(b, flat.alias(2, {3}));
  CHECK_FALSE(a.grad().defined());
  for (int step = 0; step < 2; ++step) {
    (sum(a * a) + sum(b * 2)).backward();
    CHECK(flat.to_vector() == Numbers{2, 4, 2, 2, 2});
    CHECK(a.grad().raw_data() == flat.raw_data());
    CHECK(grad_slot(b).storage() == flat.storage());
    zero_grad(a);
    zero_grad(b);
  }
  CHECK(flat.version() > 0);
}

TEST_CASE("slots: a gradient that is there moves along") {
  const Tensor a = leaf({1, 2});
  sum(a * a).backward();
  const Tensor slot = zeros({2});
  set_grad_slot(a, slot);
  CHECK(slot.to_vector() == Numbers{2, 4});
  sum(a * a).backward();
  CHECK(slot.to_vector() == Numbers{4, 8});
  zero_grad(a);
  const Tensor other = full({2}, 7);
  set_grad_slot(a, other);  // an absent one does not
  CHECK(other.to_vector() == Numbers{7, 7});
  set_grad_slot(a, {});
  CHECK_FALSE(grad_slot(a).defined());
  sum(a).backward();
  CHECK(a.grad().to_vector() == Numbers{1, 1});
  CHECK(other.to_vector() == Numbers{7, 7});
}

TEST_CASE("slots: a wider slot adds up what the leaf's dtype would lose") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor a = set_requires_grad(ones({1, 4}, {.dtype = dtype}));
    const Tensor slot = zeros({1, 4});
    set_grad_slot(a, slot);
    // 1 + 2^-12 has no bf16 or f16: in such a slot the small part would vanish.
    const Tensor small = full({1, 1}, 0x1p-12, {.dtype = dtype});
    sum(a).backward();
    sum(matmul(small, a)).backward();
    sum(a * small).backward();
    sum(select(a, 0, 0) * select(small, 0, 0)).backward();
    CHECK(slot.to_vector() == Numbers(4, 1 + 3 * 0x1p-12));
    CHECK(a.grad().dtype() == DType::f32);
  }
}

TEST_CASE("slots: any wider dtype fits every leaf") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor a = set_requires_grad(ones({2, 2}, {.dtype = dtype}));
    const Tensor slot = zeros({2, 2}, {.dtype = DType::f64});
    set_grad_slot(a, slot);
    const Tensor x = from_vector({1, 2, 3, 4}, {2, 2}, {.dtype = dtype});
    sum(matmul(x, a)).backward();
    sum(matmul(x, a)).backward();
    CHECK(slot.to_vector() == Numbers{8, 8, 12, 12});
  }
}

TEST_CASE("slots: what does not fit is refused") {
  const Tensor a = leaf({1, 2});
  CHECK_THROWS_WITH(set_grad_slot(a, zeros({3})),
                    "[set_grad_slot] shapes differ: given (2) and (3)");
  CHECK_THROWS_WITH(
      set_grad_slot(a, zeros({2}, {.dtype = DType::bf16})),
      "[set_grad_slot] wrong dtype: given bf16, wanted f32 or a wider floating dtype");
  CHECK_THROWS_WITH(set_grad_slot(a, zeros({2}, {.dtype = DType::i64})), Contains("wrong dtype"));
  CHECK_THROWS_WITH(set_grad_slot(a * 2, zeros({2})), Contains("[autograd] not a leaf"));
  CHECK_THROWS_WITH(set_grad_present(a, true), Contains("[set_grad_present] no gradient slot"));
  set_grad_slot(a, full({2}, 5));
  set_grad_present(a, true);
  CHECK(a.grad().to_vector() == Numbers{5, 5});
}

TEST_CASE("end of backward: callbacks run in order when all gradients exist") {
  Events events;
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  register_post_accumulate_hook(b, [&](const Tensor&) {
    events.push_back("b");
    on_backward_end([&] {
      events.push_back(a.grad().defined() ? "first" : "too early");
      on_backward_end([&] { events.push_back("third"); });
    });
    on_backward_end([&] { events.push_back("second"); }, [&] { events.push_back("failed"); });
  });
  log_gradient(a, "a", events);
  sum((a * 2) * b).backward();
  CHECK(events == Events{"b", "a", "first", "second", "third"});
  CHECK_THROWS_WITH(on_backward_end([] {}), "[on_backward_end] called outside a backward");
}

TEST_CASE("end of backward: after an error the callbacks that are not done learn of it") {
  Events events;
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  register_post_accumulate_hook(b, [&](const Tensor&) {
    on_backward_end([&] { events.push_back("done 1"); }, [&] { events.push_back("failed 1"); });
    on_backward_end([&] { events.push_back("done 2"); },
                    [&] {
                      events.push_back("failed 2");
                      fail("callback", "must not hide the first error");
                    });
    on_backward_end([&] { events.push_back("done 3"); });
    on_backward_end([&] { events.push_back("done 4"); }, [&] { events.push_back("failed 4"); });
  });
  HookHandle bad = register_post_accumulate_hook(a, [&](const Tensor&) { fail("hook", "bad"); });
  CHECK_THROWS_WITH(sum((a * 2) * b).backward(), "[hook] bad");
  CHECK(events == Events{"failed 1", "failed 2", "failed 4"});
  bad.remove();
  events.clear();
  register_post_accumulate_hook(a, [&](const Tensor&) {
    on_backward_end([&] { fail("end", "bad end"); }, [&] { events.push_back("failed 5"); });
    on_backward_end([&] { events.push_back("done 6"); }, [&] { events.push_back("failed 6"); });
  });
  CHECK_THROWS_WITH(sum((a * 2) * b).backward(), "[end] bad end");
  CHECK(events == Events{"done 1", "done 2", "done 3", "done 4", "failed 5", "failed 6"});
}

}  // namespace
}  // namespace tenon
