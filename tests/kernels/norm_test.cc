#include "tenon/kernels/norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/kernels/copy.h"
#include "tenon/tests/support/array.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::Array;
using testing::channels_last;
using testing::for_each_index;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr double kEps = 1e-5;

// The naive normalisation of groups of elements: `group` gives the group of an index, and `channel`
// the element of gamma and beta.
struct Reference {
  using Place = std::function<size_t(const Dims&)>;

  Reference(const Array& x, const Array& gamma, const Array& beta, size_t groups,
            const Place& group_of, const Place& channel_of)
      : input(x),
        scale(gamma),
        group(group_of),
        channel(channel_of),
        mean(groups),
        rstd(groups),
        y(x.shape),
        normalized(x.shape) {
    for_each_index(x.shape, [&](const Dims& i) { mean[group(i)] += x[i] / per_group(); });
    for_each_index(x.shape, [&](const Dims& i) {
      rstd[group(i)] += std::pow(x[i] - mean[group(i)], 2) / per_group();
    });
    for (double& value : rstd) value = 1 / std::sqrt(value + kEps);
    normalize(beta);
  }

  double per_group() const {
    return static_cast<double>(input.values.size()) / static_cast<double>(mean.size());
  }
  void normalize(const Array& beta) {
    for_each_index(input.shape, [&](const Dims& i) {
      normalized[i] = (input[i] - mean[group(i)]) * rstd[group(i)];
      y[i] = normalized[i] * scale.values[channel(i)] + beta.values[channel(i)];
    });
  }
  // dx; `through_statistics`: mean and rstd depend on x.
  Array input_gradient(const Array& dy, bool through_statistics) const {
    std::vector<double> sum(mean.size()), dot(mean.size());
    for_each_index(input.shape, [&](const Dims& i) {
      const double grad = dy[i] * scale.values[channel(i)] / per_group();
      sum[group(i)] += grad;
      dot[group(i)] += grad * normalized[i];
    });
    Array dx(input.shape);
    for_each_index(input.shape, [&](const Dims& i) {
      const double grad = dy[i] * scale.values[channel(i)];
      const double indirect = sum[group(i)] + normalized[i] * dot[group(i)];
      dx[i] = rstd[group(i)] * (grad - (through_statistics ? indirect : 0));
    });
    return dx;
  }
  // The gradients of gamma and beta on top of `old`.
  std::array<std::vector<double>, 2> parameter_gradients(const Array& dy, double old) const {
    std::array<std::vector<double>, 2> result;
    result.fill(std::vector<double>(scale.values.size(), old));
    for_each_index(input.shape, [&](const Dims& i) {
      result[0][channel(i)] += dy[i] * normalized[i];
      result[1][channel(i)] += dy[i];
    });
    return result;
  }

  Array input, scale;
  Place group, channel;
  std::vector<double> mean, rstd;
  Array y, normalized;
};

void check_layer_norm(int64_t rows, int64_t width, DType dtype, bool affine, double shift) {
  INFO(rows << " rows of " << width << " " << dtype);
  Tensor x = random_tensor({rows, width}, DType::f64, 1);
  std::vector<double> shifted = x.to_vector();
  for (double& value : shifted) value += shift;
  x = from_vector(shifted, {rows, width}, {.dtype = dtype});
  const Tensor gamma = random_tensor({width}, dtype, 2), beta = random_tensor({width}, dtype, 3);
  const Reference reference(
      Array(x), affine ? Array(gamma) : Array({width}, 1), affine ? Array(beta) : Array({width}),
      static_cast<size_t>(rows), [](const Dims& i) { return static_cast<size_t>(i[0]); },
      [](const Dims& i) { return static_cast<size_t>(i[1]); });
  const DType compute = compute_dtype(dtype);
  Tensor y = empty({rows, width}, {.dtype = dtype});
  Tensor mean = empty({rows}, {.dtype = compute}), rstd = empty({rows}, {.dtype = compute});
  const Tensor* scale = affine ? &gamma : nullptr;
  const Tensor* offset = affine ? &beta : nullptr;
  const double limit = 8 * tolerance(dtype) * (1 + std::abs(shift));
  kernels::layer_norm(testing::device_type(), x, scale, offset, y, mean, rstd, kEps);
  CHECK(max_error(y.to_vector(), reference.y.values) < limit);
  CHECK(max_error(mean.to_vector(), reference.mean) < limit);

  const Tensor dy = random_tensor({rows, width}, dtype, 4);
  Tensor dx = empty({rows, width}, {.dtype = dtype});
  Tensor dgamma = ones({width}, {.dtype = compute}), dbeta = ones({width}, {.dtype = compute});
  kernels::layer_norm_backward(testing::device_type(), x, scale, mean, rstd, dy, &dx, &dgamma,
                               &dbeta, {.parameters = true});
  const Array dx_wanted = reference.input_gradient(Array(dy), true);
  const auto wanted = reference.parameter_gradients(Array(dy), 1);
  CHECK(max_error(dx.to_vector(), dx_wanted.values) < limit);
  const double sum_limit = 10 * tolerance(compute) * (1 + std::abs(shift));
  CHECK(max_error(dgamma.to_vector(), wanted[0]) < sum_limit);
  CHECK(max_error(dbeta.to_vector(), wanted[1]) < sum_limit);
  kernels::layer_norm_backward(testing::device_type(), x, scale, mean, rstd, dy, nullptr, &dgamma,
                               nullptr, {});
  CHECK(max_error(dgamma.to_vector(), reference.parameter_gradients(Array(dy), 0)[0]) < sum_limit);
}

}  // namespace

TEST_CASE("layer_norm and its gradients agree with the definition") {
  for (const DType dtype : kFloating) {
    for (const bool affine : {true, false}) {
      for (const int64_t width : {1, 5, 16, 33, 200}) {
        for (const int64_t rows : {1, 3, 70}) check_layer_norm(rows, width, dtype, affine, 0);
      }
      check_layer_norm(5, 2500, dtype, affine, 0);
    }
  }
}

TEST_CASE("layer_norm keeps its accuracy when the mean is large") {
  check_layer_norm(3, 700, DType::f32, true, 100);
}

TEST_CASE("layer_norm of no rows leaves zero parameter gradients") {
  Tensor x = empty({0, 4}), mean = empty({0}), rstd = empty({0});
  Tensor dgamma = ones({4}), dbeta = ones({4});
  kernels::layer_norm(testing::device_type(), x, nullptr, nullptr, x, mean, rstd, kEps);
  kernels::layer_norm_backward(testing::device_type(), x, nullptr, mean, rstd, x, nullptr, &dgamma,
                               &dbeta, {});
  CHECK(dgamma.to_vector() == std::vector<double>(4, 0));
  CHECK(dbeta.to_vector() == std::vector<double>(4, 0));
}

namespace {

// x, dy and the outputs in one memory order.
void check_batch_norm(const Shape& shape, DType dtype, bool affine, bool last, double shift) {
  const auto arrange = [&](const Tensor& tensor) {
    if (!last) return tensor;
    return shape.size() == 4 ? channels_last(tensor) : testing::with_layout(tensor, {0, 2, 1});
  };
  std::vector<double> values = random_tensor(shape, DType::f64, 1).to_vector();
  for (double& value : values) value += shift;
  const Tensor x = arrange(from_vector(values, shape, {.dtype = dtype}));
  const Tensor dy = arrange(random_tensor(shape, dtype, 4));
  INFO(describe(x) << " strides " << x.strides());
  const int64_t channels = shape[1];
  const Tensor gamma = random_tensor({channels}, dtype, 2);
  const Tensor beta = random_tensor({channels}, dtype, 3);
  const auto channel = [](const Dims& i) { return static_cast<size_t>(i[1]); };
  Reference reference(Array(x), affine ? Array(gamma) : Array({channels}, 1),
                      affine ? Array(beta) : Array({channels}), static_cast<size_t>(channels),
                      channel, channel);
  const DType compute = compute_dtype(dtype);
  Tensor y = empty_like(x), dx = empty_like(x);
  Tensor mean = empty({channels}, {.dtype = compute}), rstd = empty({channels}, {.dtype = compute});
  const Tensor* scale = affine ? &gamma : nullptr;
  const Tensor* offset = affine ? &beta : nullptr;
  const double limit = 8 * tolerance(dtype) * (1 + std::abs(shift));
  const double sum_limit = 10 * tolerance(compute) * (1 + std::abs(shift));
  kernels::batch_norm(testing::device_type(), x, scale, offset, y, mean, rstd, kEps);
  CHECK(max_error(y.to_vector(), reference.y.values) < limit);
  CHECK(max_error(mean.to_vector(), reference.mean) < sum_limit);
  CHECK(max_error(rstd.to_vector(), reference.rstd) < sum_limit);
  kernels::fill(testing::device_type(), y, 7);
  kernels::batch_norm_inference(testing::device_type(), x, scale, offset, mean, rstd, y);
  CHECK(max_error(y.to_vector(), reference.y.values) < limit);
  for (const bool batch_statistics : {true, false}) {
    Tensor dgamma = ones({channels}, {.dtype = compute});
    Tensor dbeta = ones({channels}, {.dtype = compute});
    kernels::batch_norm_backward(testing::device_type(), x, scale, mean, rstd, dy, &dx, &dgamma,
                                 &dbeta, batch_statistics, true);
    const auto wanted = reference.parameter_gradients(Array(dy), 1);
    const Array dx_wanted = reference.input_gradient(Array(dy), batch_statistics);
    CHECK(max_error(dx.to_vector(), dx_wanted.values) < limit);
    CHECK(max_error(dgamma.to_vector(), wanted[0]) < sum_limit);
    CHECK(max_error(dbeta.to_vector(), wanted[1]) < sum_limit);
    kernels::batch_norm_backward(testing::device_type(), x, scale, mean, rstd, dy, nullptr, nullptr,
                                 &dbeta, batch_statistics, false);
    CHECK(max_error(dbeta.to_vector(), reference.parameter_gradients(Array(dy), 0)[1]) < sum_limit);
  }
}

}  // namespace

TEST_CASE("batch_norm and its gradients agree with the definition, row-major and channels-last") {
  for (const Shape& shape : {Shape{3, 5, 7, 9}, Shape{2, 40, 3, 3}, Shape{2, 1, 20, 20},
                             Shape{4, 3, 50}, Shape{5, 130, 2}}) {
    for (const DType dtype : kFloating) {
      for (const bool last : {false, true}) check_batch_norm(shape, dtype, true, last, 0);
      check_batch_norm(shape, dtype, false, false, 0);
    }
  }
  check_batch_norm({3, 4, 40, 40}, DType::f32, true, false, 100);
  check_batch_norm({3, 4, 40, 40}, DType::f32, true, true, 100);
}

}  // namespace tenon
