// A small network learns with every optimizer.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "tenon/autograd/ops/loss.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/linear.h"
#include "tenon/optim/adadelta.h"
#include "tenon/optim/adam.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/sgd.h"

using namespace tenon;

namespace {

struct Mlp : Module {
  Child<nn::Linear> fc1{this, "fc1", 2, 32, {.activation = Activation::relu}};
  Child<nn::Linear> fc2{this, "fc2", 32, 3};
  Tensor forward(const Tensor& x) { return fc2(fc1(x)); }
};

// Three sectors of the plane.
void make_data(int64_t count, Tensor& x, Tensor& targets) {
  std::vector<double> points, classes;
  for (int64_t i = 0; i < count; ++i) {
    const double angle = 2 * M_PI * static_cast<double>(i) / static_cast<double>(count);
    const double radius = 0.5 + 0.5 * std::abs(std::sin(7.0 * static_cast<double>(i)));
    points.push_back(radius * std::cos(angle));
    points.push_back(radius * std::sin(angle));
    classes.push_back(std::floor(3 * static_cast<double>(i) / static_cast<double>(count)));
  }
  x = from_vector(points, {count, 2});
  targets = from_vector(classes, {count}, {.dtype = DType::i64});
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<NamedTensor>)>;

void check_learns(const MakeOptimizer& make, std::optional<DType> compute_dtype = {}) {
  seed(5);
  Mlp model;
  if (compute_dtype) model.set_compute_dtype(*compute_dtype);
  const auto optimizer = make(model.parameters());
  Tensor x, targets;
  make_data(96, x, targets);
  std::vector<double> losses;
  for (int step = 0; step < 150; ++step) {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(call_module(model, x), targets);
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer->step();
  }
  CHECK(losses.front() == Approx(std::log(3.0)).margin(0.3));
  CHECK(losses.back() < 0.4);
}

}  // namespace

TEST_CASE("a small network learns with every optimizer") {
  check_learns(
      [](auto p) { return std::make_unique<Sgd>(p, SgdOptions{.lr = 0.3, .momentum = 0.9}); });
  check_learns([](auto p) { return std::make_unique<Adam>(p, AdamOptions{.lr = 0.02}); });
  check_learns([](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.02}); });
  check_learns([](auto p) { return std::make_unique<Adadelta>(p, AdadeltaOptions{.lr = 3}); });
}

TEST_CASE("a small network learns with bf16 compute and f32 parameters") {
  check_learns([](auto p) { return std::make_unique<AdamW>(p, AdamWOptions{.lr = 0.02}); },
               DType::bf16);
}
