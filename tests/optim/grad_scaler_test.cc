#include "tenon/optim/grad_scaler.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/optim/clip.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;
using Numbers = std::vector<double>;

TEST_CASE("gradients that f16 cannot hold reach the parameter through the scaler") {
  for (const bool scaled : {false, true}) {
    const Tensor weight = set_requires_grad(from_vector({1, 1}, {2}));
    Sgd optimizer({{"weight", weight}}, {.lr = 1});
    GradScaler scaler({.scale = scaled ? 65536.0 : 1.0});
    // A factor of 2^-26, which is 0 in f16, between the loss and the f16 part.
    const Tensor loss = sum(to(to(weight, DType::f16) * 1.0, DType::f32)) * 0x1p-26;
    scaler.backward(loss);
    CHECK(scaler.step(optimizer));
    CHECK(weight.grad().to_vector() == Numbers(2, scaled ? 0x1p-26 : 0));
  }
}

TEST_CASE("a step with an infinity or a NaN is left out and the scale shrinks") {
  const Tensor weight = set_requires_grad(from_vector({1, 2}, {2}));
  Sgd optimizer({{"weight", weight}}, {.lr = 1});
  GradScaler scaler({.scale = 8, .growth_interval = 2});
  const auto step = [&](const Numbers& gradient) {
    set_grad_present(weight, false);
    set_grad_slot(weight, from_vector(gradient, {2}));
    set_grad_present(weight, true);
    return scaler.step(optimizer);
  };
  CHECK_FALSE(step({1, std::numeric_limits<double>::infinity()}));
  CHECK_FALSE(step({std::numeric_limits<double>::quiet_NaN(), 1}));
  CHECK(weight.to_vector() == Numbers{1, 2});
  CHECK(scaler.state().scale == 2);
  CHECK(step({2, 4}));
  CHECK(weight.to_vector() == Numbers{0, 0});
  CHECK(step({0, 0}));
  CHECK(scaler.state().scale == 4);  // two good steps
  GradScaler other;
  other.load_state(scaler.state());
  CHECK(other.state().scale == 4);
  CHECK(other.state().steps == 0);
  // Another rank's overflow counts.
  scaler.set_any_rank([](bool) { return true; });
  CHECK_FALSE(step({0, 0}));
  CHECK(scaler.state().scale == 2);
}

TEST_CASE("gradients can be unscaled before the step, to be clipped, once") {
  const Tensor weight = set_requires_grad(from_vector({0, 0}, {2}));
  Sgd optimizer({{"weight", weight}}, {.lr = 1});
  GradScaler scaler({.scale = 4});
  set_grad_slot(weight, from_vector({12, 16}, {2}));
  set_grad_present(weight, true);
  scaler.unscale(optimizer.parameters());
  CHECK(clip_grad_norm(optimizer.parameters(), 1) == 5);
  CHECK_THAT(error_of([&] { scaler.unscale(optimizer.parameters()); }), Contains("unscaled twice"));
  CHECK(scaler.step(optimizer));
  CHECK(weight.to_vector()[0] == Approx(-0.6));
  CHECK_THAT(error_of([] { GradScaler({.scale = 0}); }), Contains("bad scale: given 0"));
  CHECK_THAT(error_of([] { GradScaler({.backoff = 1}); }), Contains("backoff within (0, 1)"));
}
