#include "tenon/kernels/loss.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/tests/support/array.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::CrossEntropyParams;
using testing::applies;
using testing::Array;
using testing::kLayouts;
using testing::Layout;
using testing::make_tensor;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

struct Expected {
  double loss = 0;
  Array gradient;
};

Expected naive(const Array& logits, const std::vector<double>& targets,
               const CrossEntropyParams& params) {
  const int64_t classes = logits.dim(1);
  Expected result{0, Array(logits.shape)};
  double counted = 0;
  for (const double target : targets) {
    counted += target != static_cast<double>(params.ignore_index);
  }
  const double divisor = params.divisor != 0 ? params.divisor : counted;
  for (int64_t row = 0; row < logits.dim(0); ++row) {
    const auto target = static_cast<int64_t>(targets[static_cast<size_t>(row)]);
    if (target == params.ignore_index) continue;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[{row, c}]);
    for (int64_t c = 0; c < classes; ++c) {
      const double wanted = params.label_smoothing / static_cast<double>(classes) +
                            (c == target ? 1 - params.label_smoothing : 0);
      result.loss -= wanted * (logits[{row, c}] - std::log(sum)) / divisor;
      result.gradient[{row, c}] =
          ((1 + 2 * params.z_loss * std::log(sum)) * std::exp(logits[{row, c}]) / sum - wanted) /
          divisor;
    }
    result.loss += params.z_loss * std::log(sum) * std::log(sum) / divisor;
  }
  return result;
}

void check(const Tensor& logits, const Tensor& targets, const CrossEntropyParams& params,
           Tensor dlogits) {
  const DType compute = compute_dtype(logits.dtype());
  Tensor loss = empty({}, {.dtype = compute}), weight = empty({}, {.dtype = compute});
  Tensor log_sum_exp = empty({logits.dim(0)}, {.dtype = compute});
  kernels::cross_entropy(testing::device_type(), logits, targets, loss, log_sum_exp, weight,
                         params);
  const Tensor dloss = scalar(0.5, {.dtype = compute});
  kernels::cross_entropy_backward(testing::device_type(), logits, targets, log_sum_exp, weight,
                                  dloss, dlogits, params);
  Expected expected = naive(Array(logits), targets.to_vector(), params);
  for (double& value : expected.gradient.values) value *= 0.5;
  INFO(describe(logits) << " strides " << logits.strides());
  CHECK(std::abs(loss.item<double>() - expected.loss) <
        tolerance(compute) * std::max(1.0, std::abs(expected.loss)));
  CHECK(max_error(dlogits.to_vector(), expected.gradient.values) < tolerance(logits.dtype()));
}

Tensor some_targets(int64_t rows, int64_t classes, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows; ++i) {
    values.push_back(i % 4 == 2 ? -100 : static_cast<double>(i * 5 % classes));
  }
  return from_vector(values, {rows}, {.dtype = dtype});
}

}  // namespace

TEST_CASE("cross_entropy and its gradient agree with the definition") {
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{17, 10}, Shape{3, 2500}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const Layout layout : kLayouts) {
        if (!applies(layout, shape)) continue;
        const Tensor values = random_tensor(shape, DType::f64, 1);
        const Tensor logits = make_tensor(values.to_vector(), shape, dtype, layout);
        const Layout out = layout == Layout::repeated ? Layout::contiguous : layout;
        for (const DType ids : {DType::i64, DType::i32}) {
          const Tensor targets = some_targets(shape[0], shape[1], ids);
          for (const CrossEntropyParams& params :
               {CrossEntropyParams{}, CrossEntropyParams{.label_smoothing = 0.1},
                CrossEntropyParams{.z_loss = 0.1}, CrossEntropyParams{.divisor = 7.5},
                CrossEntropyParams{.ignore_index = 0, .label_smoothing = 0.2, .divisor = 3}}) {
            const bool inside = params.ignore_index == -100;
            check(logits,
                  inside ? targets
                         : from_vector(std::vector<double>(static_cast<size_t>(shape[0]), 0),
                                       {shape[0]}, {.dtype = ids}),
                  params, make_tensor(values.to_vector(), shape, dtype, out));
          }
        }
      }
    }
  }
}

TEST_CASE("cross_entropy without a row that counts is 0 with weight 0") {
  const Tensor logits = random_tensor({2, 3});
  const Tensor targets = from_data<int64_t>({-100, -100}, {2});
  Tensor loss = full({}, 5), weight = full({}, 5), log_sum_exp = empty({2}), dx = full({2, 3}, 5);
  kernels::cross_entropy(testing::device_type(), logits, targets, loss, log_sum_exp, weight, {});
  CHECK(loss.item() == 0);
  CHECK(weight.item() == 0);
  kernels::cross_entropy_backward(testing::device_type(), logits, targets, log_sum_exp, weight,
                                  ones({}), dx, {});
  CHECK(dx.to_vector() == std::vector<double>(6, 0));
  Tensor none = empty({0});
  kernels::cross_entropy(testing::device_type(), empty({0, 3}), empty({0}, {.dtype = DType::i64}),
                         loss, none, weight, {});
  CHECK(loss.item() == 0);
}

TEST_CASE("cross_entropy names the row of a target out of range") {
  Tensor loss = empty({}), weight = empty({}), log_sum_exp = empty({2});
  const Tensor targets = from_data<int64_t>({0, 3}, {2});
  CHECK_THROWS_WITH(testing::settled([&] {
                      kernels::cross_entropy(testing::device_type(), random_tensor({2, 3}), targets,
                                             loss, log_sum_exp, weight, {});
                    }),
                    Catch::Contains("[cross_entropy] target out of range: given 3 in row 1"));
}

TEST_CASE("cross_entropy is stable for large and for masked logits") {
  Tensor loss = empty({}), weight = empty({}), log_sum_exp = empty({1});
  const Tensor logits = from_vector({-INFINITY, 1000, 999}, {1, 3});
  kernels::cross_entropy(testing::device_type(), logits, from_data<int64_t>({1}, {1}), loss,
                         log_sum_exp, weight, {});
  CHECK(loss.item<double>() == Approx(std::log(1 + std::exp(-1.0))).epsilon(1e-4));
}

}  // namespace tenon
