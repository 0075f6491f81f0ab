// Softmax and losses.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/loss.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/softmax.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Arrays = std::vector<Array>;

// log(sum(exp(x))) along `axis`, for each of x's elements.
Array log_sum_exp(const Array& x, int axis) {
  Array y(x.shape);
  for_each_index(x.shape, [&](const Dims& i) {
    Dims at = i;
    double total = 0;
    for (int64_t k = 0; k < x.shape[axis]; ++k) {
      at[axis] = k;
      total += std::exp(x[at]);
    }
    y[i] = std::log(total);
  });
  return y;
}

TEST_CASE("softmax and log_softmax: values, gradients, layouts and dtypes") {
  for (const int axis : {-1, 0, 1}) {
    const std::vector<std::vector<Input>> inputs{
        {values({3, 5}, -4, 4)}, {values({2, 3, 4})}, {values({4, 1})}, {values({0, 3})}};
    auto reference = [axis](bool logarithm) {
      return [=](const Arrays& in) {
        const Array norm = log_sum_exp(in[0], axis < 0 ? axis + in[0].shape.size() : axis);
        return zip(in[0], norm,
                   [=](double x, double n) { return logarithm ? x - n : std::exp(x - n); });
      };
    };
    check_op({.name = str("softmax ", axis),
              .function = [=](const Tensors& in) { return softmax(in[0], axis); },
              .reference = reference(false),
              .inputs = inputs});
    check_op({.name = str("log_softmax ", axis),
              .function = [=](const Tensors& in) { return log_softmax(in[0], axis); },
              .reference = reference(true),
              .inputs = inputs});
  }
}

TEST_CASE("softmax and log_softmax: large numbers do not overflow, long rows add up to one") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor large = from_vector({1000, 1001, -infinity}, {3});
  const Numbers probabilities = softmax(large).to_vector();
  CHECK(probabilities[0] == Approx(1 / (1 + std::exp(1.0))));
  CHECK(probabilities[2] == 0);
  CHECK(log_softmax(large).to_vector()[1] == Approx(-std::log(1 + std::exp(-1.0))));
  Numbers row;
  for (int i = 0; i < 1000; ++i) row.push_back(std::sin(i));
  double total = 0;
  for (const double p : softmax(from_vector(row, {1000})).to_vector()) total += p;
  CHECK(total == Approx(1));
  CHECK_THROWS_WITH(softmax(arange(3)), Contains("[softmax] wrong dtype"));
  CHECK_THROWS_WITH(softmax(ones({2}), 1), Contains("[softmax] axis out of range"));
}

// The definition of CrossEntropyOptions, row by row.
Array cross_entropy_reference(const Arrays& in, const CrossEntropyOptions& options) {
  const Array &logits = in[0], &targets = in[1];
  const int axis = logits.shape.size() - 1;
  const int64_t classes = logits.shape[axis];
  const Array norm = log_sum_exp(logits, axis);
  double total = 0, rows = 0;
  for_each_index(targets.shape, [&](const Dims& i) {
    const auto target = static_cast<int64_t>(targets[i]);
    if (target == options.ignore_index) return;
    ++rows;
    Dims at = i;
    at.push_back(0);
    for (int64_t k = 0; k < classes; ++k) {
      at[axis] = k;
      const double wanted = options.label_smoothing / static_cast<double>(classes) +
                            (k == target ? 1 - options.label_smoothing : 0);
      total -= wanted * (logits[at] - norm[at]);
    }
    at[axis] = 0;
    total += options.z_loss * norm[at] * norm[at];
  });
  const double divisor = options.divisor > 0 ? options.divisor : rows;
  return Array(Shape{}, divisor > 0 ? total / divisor : 0);
}

TEST_CASE("cross_entropy: values, gradients, layouts and dtypes") {
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{}, CrossEntropyOptions{.label_smoothing = 0.1},
        CrossEntropyOptions{.divisor = 7}, CrossEntropyOptions{.z_loss = 0.3},
        CrossEntropyOptions{.ignore_index = 2},
        CrossEntropyOptions{.ignore_index = 0, .label_smoothing = 0.25, .divisor = 3}}) {
    check_op({.name = str("cross_entropy, ignore ", options.ignore_index, ", smoothing ",
                          options.label_smoothing, ", z loss ", options.z_loss, ", divisor ",
                          options.divisor),
              .function = [&](const Tensors& in) { return cross_entropy(in[0], in[1], options); },
              .reference = [&](const Arrays& in) { return cross_entropy_reference(in, options); },
              .inputs = {{values({6, 5}, -3, 3), indices({6}, 5)},
                         {values({2, 3, 4}), indices({2, 3}, 4)},
                         {values({3}), indices({}, 3)},
                         {values({4, 1}), indices({4}, 1)}}});
  }
}

TEST_CASE("cross_entropy: the gradient takes the logits' memory when nobody else holds it") {
  const Tensor x = set_requires_grad(full({64, 32}, 0.5)), targets = zeros({64}, {DType::i64});
  const MemoryCounters& memory = *rank_context().memory;
  const int64_t bytes = 64 * 32 * 4;
  const auto backward_peak = [&](const Tensor& loss, bool retain_graph) {
    const int64_t before = memory.live();
    rank_context().memory->reset_peak();
    backward(loss, {.retain_graph = retain_graph});
    return memory.peak() - before;
  };
  // Of x: the gradient's place is made by the first backward.
  const auto fresh_loss = [&] { return cross_entropy(mul(x, x), targets); };
  backward_peak(fresh_loss(), false);
  const auto gradient = x.grad().to_vector();
  const int64_t alone = backward_peak(fresh_loss(), false);
  const Tensor kept = mul(x, x);
  const int64_t held = backward_peak(cross_entropy(kept, targets), false);
  CHECK(held - alone >= bytes);
  CHECK(kept.to_vector() == Numbers(64 * 32, 0.25));
  const Tensor loss = fresh_loss();
  CHECK(backward_peak(loss, true) - alone >= bytes);
  backward_peak(loss, false);
  for (size_t i = 0; i < gradient.size(); ++i) {
    CHECK(x.grad().to_vector()[i] == Approx(5 * gradient[i]));
  }
}

TEST_CASE("cross_entropy: with no row that counts loss and gradient are 0") {
  const CrossEntropyOptions options{.ignore_index = 1};
  for (const Tensor& targets : {full({3}, 1, {DType::i64}), zeros({0}, {DType::i64})}) {
    const Tensor logits = set_requires_grad(ones({targets.dim(0), 4}));
    const Tensor loss = cross_entropy(logits, targets, options);
    CHECK(loss.item() == 0);
    loss.backward();
    CHECK(logits.grad().to_vector() == Numbers(static_cast<size_t>(logits.numel()), 0));
  }
}

TEST_CASE("cross_entropy: large logits, dtypes of the result and ignored targets out of range") {
  const Tensor logits = from_vector({1000, 0, 0, 1000}, {2, 2});
  CHECK(cross_entropy(logits, from_data<int64_t>({0, 1}, {2})).item() == 0);
  CHECK(cross_entropy(logits, from_data<int64_t>({1, -100}, {2})).item() == 1000);
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64}) {
    const Tensor x = zeros({2, 4}, {.dtype = dtype});
    const Tensor loss = cross_entropy(x, from_data<int32_t>({0, 3}, {2}));
    CHECK(loss.dtype() == compute_dtype(dtype));
    CHECK(loss.item() == Approx(std::log(4.0)));
  }
}

TEST_CASE("nll_loss and mse_loss: values, gradients, layouts and dtypes") {
  check_op(
      {.name = "nll_loss",
       .function = [](const Tensors& in) { return nll_loss(in[0], in[1]); },
       .reference =
           [](const Arrays& in) {
             double total = 0;
             for (int64_t i = 0; i < in[0].dim(0); ++i) {
               total -= in[0][Dims{i, static_cast<int64_t>(in[1][Dims{i}])}];
             }
             return Array(Shape{}, total / static_cast<double>(in[0].dim(0)));
           },
       .inputs = {{values({4, 3}, -3, 0), indices({4}, 3)}, {values({1, 1}), indices({1}, 1)}}});
  check_op({.name = "mse_loss",
            .function = [](const Tensors& in) { return mse_loss(in[0], in[1]); },
            .reference =
                [](const Arrays& in) {
                  double total = 0;
                  for (size_t i = 0; i < in[0].values.size(); ++i) {
                    total += std::pow(in[0].values[i] - in[1].values[i], 2);
                  }
                  return Array(Shape{}, total / static_cast<double>(in[0].values.size()));
                },
            .inputs = {{values({4, 3}), values({4, 3})}, {values({}), values({})}}});
}

TEST_CASE("cross_entropy equals nll_loss of log_softmax") {
  const Tensor x = from_vector({1, -2, 0.5, 3, 0, 1}, {2, 3}, {.dtype = DType::f64});
  const Tensor targets = from_data<int64_t>({2, 0}, {2});
  CHECK(cross_entropy(x, targets).item<double>() ==
        Approx(nll_loss(log_softmax(x), targets).item<double>()).epsilon(1e-13));
}

TEST_CASE("losses: wrong arguments") {
  const Tensor logits = ones({2, 3});
  CHECK_THROWS_WITH(settled([&] {
                      cross_entropy(logits, from_data<int64_t>({0, 3}, {2}));
                    }),
                    Contains("[cross_entropy]") && Contains("3"));
  CHECK_THROWS_WITH(settled([&] {
                      cross_entropy(logits, from_data<int64_t>({-1, 0}, {2}));
                    }),
                    Contains("[cross_entropy]") && Contains("-1"));
  CHECK_THROWS_WITH(
      cross_entropy(logits, arange(3)),
      "[cross_entropy] shapes do not fit: given logits (2, 3) and targets (3), wanted "
      "(…, C) and (…)");
  CHECK_THROWS_WITH(cross_entropy(logits, ones({2})),
                    Contains(here("[cross_entropy] wrong dtype of indices: given f32 (2) on cpu")));
  CHECK_THROWS_WITH(cross_entropy(logits, arange(2), {.label_smoothing = 2}),
                    Contains("[cross_entropy] wanted label_smoothing within [0, 1]"));
  CHECK_THROWS_WITH(cross_entropy(zeros({2, 0}), arange(2)), Contains("no classes"));
  CHECK_THROWS_WITH(settled([&] {
                      nll_loss(logits, from_data<int64_t>({0, 3}, {2}));
                    }),
                    Contains("[nll_loss]") && Contains("3"));
  CHECK_THROWS_WITH(nll_loss(zeros({2, 0}), arange(2)), Contains("[nll_loss] no classes"));
  CHECK_THROWS_WITH(nll_loss(logits, arange(3)), Contains("[nll_loss] shapes do not fit"));
  CHECK_THROWS_WITH(mse_loss(logits, ones({3})), "[mse_loss] shapes differ: given (2, 3) and (3)");
}

}  // namespace
}  // namespace tenon
