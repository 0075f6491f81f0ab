// Every optimizer against scalar loops in f64 that follow the published formulas, over 20 steps.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "tenon/autograd/meta.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/optim/adadelta.h"
#include "tenon/optim/adam.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_of;

namespace {

constexpr int kSteps = 20;

double start_value(int i) { return std::sin(1.7 * i) + 0.1; }
double gradient_value(int i, int step) { return std::cos(0.9 * i + 0.6 * step) + 0.2; }

Tensor leaf(const std::vector<double>& values, DType dtype = DType::f64) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return set_requires_grad(
      from_vector(values, shape, {dtype, default_device(), Category::parameter}));
}

std::vector<double> start(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(start_value(i));
  return values;
}

void give_gradient(const Tensor& parameter, const std::vector<double>& values,
                   DType dtype = DType::f64) {
  set_grad_slot(parameter, {});
  set_grad_slot(parameter, from_vector(values, parameter.shape(), {dtype}));
  set_grad_present(parameter, true);
}

void give_gradient_of_step(const Tensor& parameter, int step, DType dtype = DType::f64) {
  std::vector<double> values;
  for (int i = 0; i < parameter.numel(); ++i) values.push_back(gradient_value(i, step));
  give_gradient(parameter, values, dtype);
}

double distance(const Tensor& x, const std::vector<double>& expected) {
  const std::vector<double> values = x.to_vector();
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(values[i] - expected[i]));
  }
  return largest;
}

// One scalar parameter: p = update(p, g, step from 1). It keeps its own state.
using Scalar = std::function<double(double p, double g, int step)>;

template <class MakeOptimizer>
void compare(const MakeOptimizer& make, const std::function<Scalar()>& naive) {
  constexpr int kCount = 37;
  const Tensor a = leaf(start(kCount)), b = leaf(start(3));
  auto optimizer = make(std::vector<NamedTensor>{{"a", a}, {"b", b}});
  std::vector<double> expected = start(kCount);
  std::vector<Scalar> scalars;
  for (int i = 0; i < kCount; ++i) scalars.push_back(naive());
  for (int step = 1; step <= kSteps; ++step) {
    for (const Tensor& parameter : {a, b}) give_gradient_of_step(parameter, step);
    const uint32_t version = a.version();
    optimizer.step();
    CHECK(a.version() > version);
    for (int i = 0; i < kCount; ++i) {
      double& p = expected[static_cast<size_t>(i)];
      p = scalars[static_cast<size_t>(i)](p, gradient_value(i, step), step);
    }
    REQUIRE(distance(a, expected) < 1e-12);
    REQUIRE(distance(b, {expected[0], expected[1], expected[2]}) < 1e-12);
  }
}

Scalar naive_sgd(SgdOptions o) {
  return [o, m = 0.0](double p, double g, int step) mutable {
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      m = step == 1 ? g : o.momentum * m + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * m : m;
    }
    return p - o.lr * g;
  };
}

Scalar naive_adam(AdamOptions o, bool decoupled) {
  return [o, decoupled, m = 0.0, v = 0.0](double p, double g, int step) mutable {
    if (decoupled) {
      p *= 1 - o.lr * o.weight_decay;
    } else {
      g += o.weight_decay * p;
    }
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double mean = m / (1 - std::pow(o.beta1, step));
    const double variance = v / (1 - std::pow(o.beta2, step));
    return p - o.lr * mean / (std::sqrt(variance) + o.eps);
  };
}

Scalar naive_adadelta(AdadeltaOptions o) {
  return [o, s = 0.0, u = 0.0](double p, double g, int) mutable {
    g += o.weight_decay * p;
    s = o.rho * s + (1 - o.rho) * g * g;
    const double d = std::sqrt(u + o.eps) / std::sqrt(s + o.eps) * g;
    u = o.rho * u + (1 - o.rho) * d * d;
    return p - o.lr * d;
  };
}

}  // namespace

TEST_CASE("sgd follows its formula with every option") {
  for (const SgdOptions options :
       {SgdOptions{.lr = 0.1}, SgdOptions{.lr = 0.1, .weight_decay = 0.3},
        SgdOptions{.lr = 0.1, .momentum = 0.9},
        SgdOptions{.lr = 0.1, .momentum = 0.8, .dampening = 0.4, .weight_decay = 0.01},
        SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}}) {
    compare([&](auto parameters) { return Sgd(parameters, options); },
            [&] { return naive_sgd(options); });
  }
}

TEST_CASE("adam follows its formula with every option") {
  for (const AdamOptions options :
       {AdamOptions{.lr = 0.05},
        AdamOptions{.lr = 0.05, .beta1 = 0.7, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.2}}) {
    compare([&](auto parameters) { return Adam(parameters, options); },
            [&] { return naive_adam(options, false); });
  }
}

TEST_CASE("adamw follows its formula with every option") {
  for (const AdamWOptions o : {AdamWOptions{.lr = 0.05}, AdamWOptions{0.05, 0.7, 0.9, 1e-3, 0.2},
                               AdamWOptions{.lr = 0.05, .weight_decay = 0}}) {
    compare([&](auto parameters) { return AdamW(parameters, o); },
            [&] {
              return naive_adam({o.lr, o.beta1, o.beta2, o.eps, o.weight_decay}, true);
            });
  }
}

TEST_CASE("adadelta follows its formula with every option") {
  for (const AdadeltaOptions options :
       {AdadeltaOptions{},
        AdadeltaOptions{.lr = 0.3, .rho = 0.7, .eps = 1e-4, .weight_decay = 0.2}}) {
    compare([&](auto parameters) { return Adadelta(parameters, options); },
            [&] { return naive_adadelta(options); });
  }
}

TEST_CASE("f32 and bf16 parameters take gradients of f32") {
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::f32, 1e-6}, std::pair{DType::bf16, 0.1}}) {
    const Tensor p = leaf(start(9), dtype);
    AdamW optimizer({{"p", p}}, {.lr = 0.01});
    const Tensor exact = leaf(start(9));
    AdamW reference({{"p", exact}}, {.lr = 0.01});
    for (int step = 1; step <= kSteps; ++step) {
      give_gradient_of_step(p, step, DType::f32);
      give_gradient_of_step(exact, step);
      optimizer.step();
      reference.step();
    }
    CHECK(distance(p, exact.to_vector()) < tolerance);
    CHECK(optimizer.state_dict()[0].tensor.dtype() == DType::f32);
  }
}

TEST_CASE("groups have their own learning rate and weight decay") {
  const Tensor a = leaf({1}), b = leaf({1}), c = leaf({1});
  Sgd optimizer({{.parameters = {{"a", a}}},
                 {.parameters = {{"b", b}}, .lr = 0.5},
                 {.parameters = {{"c", c}}, .weight_decay = 1}},
                {.lr = 0.1});
  auto step = [&] {
    for (const Tensor& p : {a, b, c}) give_gradient(p, {1});
    optimizer.step();
  };
  step();
  CHECK(a.item<double>() == Approx(0.9));
  CHECK(b.item<double>() == Approx(0.5));
  CHECK(c.item<double>() == Approx(0.8));
  optimizer.set_lr(0.2, 1);
  CHECK(optimizer.lr(1) == 0.2);
  step();
  CHECK(b.item<double>() == Approx(0.3));
  optimizer.set_lr(0);
  CHECK(optimizer.lr(2) == 0);
  step();
  CHECK(b.item<double>() == Approx(0.3));
  CHECK(optimizer.parameters().size() == 3);
}

TEST_CASE("parameters without a gradient are left alone and count their own steps") {
  const Tensor a = leaf({1, 2}), b = leaf({1, 2});
  Adam optimizer({{"a", a}, {"b", b}}, {.lr = 0.1});
  give_gradient_of_step(a, 1);
  optimizer.step();
  CHECK(b.to_vector() == std::vector<double>{1, 2});
  CHECK(b.version() == 0);
  optimizer.zero_grad();
  CHECK_FALSE(a.grad().defined());
  give_gradient_of_step(a, 2);
  give_gradient_of_step(b, 1);
  optimizer.step();
  // b takes its first step, as a did.
  const std::vector<double> moved = b.to_vector();
  Scalar naive = naive_adam({.lr = 0.1}, false);
  CHECK(moved[0] == Approx(naive(1, gradient_value(0, 1), 1)).epsilon(1e-12));
}

TEST_CASE("state memory is exact from construction on") {
  const auto bytes_of = [](const auto& make) {
    const int64_t before = rank_context().memory->live(Category::optimizer);
    const auto optimizer = make();
    return rank_context().memory->live(Category::optimizer) - before;
  };
  const Tensor p = leaf(std::vector<double>(1000, 1.0), DType::f32);
  const std::vector<NamedTensor> list{{"p", p}};
  CHECK(bytes_of([&] { return Sgd(list); }) == 0);
  CHECK(bytes_of([&] { return Sgd(list, {.momentum = 0.9}); }) == 4000);
  CHECK(bytes_of([&] { return Adam(list); }) == 8000);
  CHECK(bytes_of([&] { return AdamW(list); }) == 8000);
  CHECK(bytes_of([&] { return Adadelta(list); }) == 8000);
}

TEST_CASE("a parameter that needs no gradient gets its state with its first one") {
  const Tensor p = set_requires_grad(leaf({1, 2}), false);
  Adam optimizer({{"p", p}});
  CHECK(optimizer.state_dict().size() == 1);
  set_requires_grad(p);
  give_gradient_of_step(p, 1);
  optimizer.step();
  CHECK(optimizer.state_dict().size() == 3);
  Adam other({{"p", set_requires_grad(leaf({1, 2}), false)}});
  other.load_state_dict(optimizer.state_dict());
  CHECK(other.state_dict().size() == 3);
}

TEST_CASE("an empty parameter is updated without touching a kernel") {
  const Tensor none = leaf({});
  AdamW optimizer({{"none", none}});
  give_gradient(none, {});
  optimizer.step();
  CHECK(optimizer.state_dict()[2].tensor.item<int64_t>() == 1);
}

TEST_CASE("a restored state continues exactly") {
  const Tensor p = leaf(start(11));
  Adadelta optimizer({{"fc.weight", p}});
  for (int step = 1; step <= 5; ++step) {
    give_gradient_of_step(p, step);
    optimizer.step();
  }
  const Tensor q = leaf(p.to_vector());
  Adadelta resumed({{"fc.weight", q}});
  resumed.load_state_dict(optimizer.state_dict());
  for (int step = 6; step <= kSteps; ++step) {
    for (const Tensor& parameter : {p, q}) give_gradient_of_step(parameter, step);
    optimizer.step();
    resumed.step();
  }
  CHECK(p.to_vector() == q.to_vector());
  const std::vector<NamedTensor> state = resumed.state_dict();
  CHECK(state[0].name == "fc.weight.square_average");
  CHECK(state[1].name == "fc.weight.delta_average");
  CHECK(state[2].name == "fc.weight.step");
  CHECK(state[2].tensor.item<int64_t>() == kSteps);
}

TEST_CASE("a state that does not fit is refused whole") {
  const Tensor p = leaf(start(4));
  Adam optimizer({{"p", p}});
  std::vector<NamedTensor> state = optimizer.state_dict();
  state[0].tensor = ones({5}, {.dtype = DType::f64});
  state[1].name = "p.speed";
  CHECK_THAT(bad_data_error_of([&] { optimizer.load_state_dict(state); }),
             Contains("mismatched: p.mean, given f64 (5), wanted f64 (4)") &&
                 Contains("missing: p.variance") && Contains("unexpected: p.speed"));
}

TEST_CASE("bad options of optimizers are named") {
  const std::vector<NamedTensor> list{{"p", leaf({1})}};
  const auto text = [&](auto options, auto* optimizer) {
    return error_of([&] { std::remove_pointer_t<decltype(optimizer)>(list, options); });
  };
  Sgd* const sgd = nullptr;
  AdamW* const adamw = nullptr;
  Adadelta* const adadelta = nullptr;
  CHECK_THAT(text(SgdOptions{.lr = -1}, sgd), Contains("[sgd] bad lr: given -1"));
  CHECK_THAT(text(SgdOptions{.lr = std::nan("")}, sgd), Contains("bad lr"));
  CHECK_THAT(text(SgdOptions{.momentum = -1}, sgd), Contains("bad momentum"));
  CHECK_THAT(text(SgdOptions{.weight_decay = -1}, sgd), Contains("bad weight_decay"));
  CHECK_THAT(text(SgdOptions{.nesterov = true}, sgd), Contains("bad nesterov"));
  CHECK_THAT(text(AdamWOptions{.beta1 = 1}, adamw), Contains("[adamw] bad beta1: given 1"));
  CHECK_THAT(text(AdamWOptions{.beta2 = -0.1}, adamw), Contains("bad beta2"));
  CHECK_THAT(text(AdamWOptions{.eps = -1}, adamw), Contains("bad eps"));
  CHECK_THAT(text(AdadeltaOptions{.rho = 2}, adadelta), Contains("[adadelta] bad rho"));
}

TEST_CASE("bad parameter lists of optimizers are named") {
  const Tensor p = leaf({1});
  CHECK_THAT(error_of([] { Sgd(std::vector<NamedTensor>{}); }), Contains("no parameters"));
  CHECK_THAT(error_of([&] {
               Sgd(std::vector<NamedTensor>{{"p", p}, {"q", p}});
             }),
             Contains("given twice: the second time as q"));
  CHECK_THAT(error_of([&] {
               Sgd(std::vector<NamedTensor>{{"p", p}, {"p", leaf({2})}});
             }),
             Contains("given twice: p"));
  CHECK_THAT(error_of([&] {
               Sgd(std::vector<NamedTensor>{{"i", arange(3)}});
             }),
             Contains("bad parameter i: given i64"));
  Sgd optimizer(std::vector<NamedTensor>{{"p", p}});
  CHECK_THAT(error_of([&] { optimizer.set_lr(-1); }), Contains("bad lr"));
  CHECK_THAT(error_of([&] { optimizer.set_lr(1, 1); }), Contains("no such group"));
}

TEST_CASE("a parameter converted after the optimizer was made is an error that names it") {
  const Tensor p = leaf({1, 2}, DType::f32);
  Adam optimizer({{"p", p}});
  Tensor handle = p;
  handle.set_data(ones({2}, {.dtype = DType::f64}));
  give_gradient(p, {1, 1});
  CHECK_THAT(error_of([&] { optimizer.step(); }), Contains("parameter p has changed"));
}
