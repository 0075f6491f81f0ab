// Tensors for tests of kernels: reproducible values, and the distance between two results.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tenon/core/factory.h"

namespace tenon::testing {

// Values in [-1, 1), rounded to `dtype`; the same ones for the same seed.
inline Tensor random_tensor(const Shape& shape, DType dtype = DType::f32, unsigned seed = 1,
                            Device device = default_device()) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> values(-1, 1);
  std::vector<double> data(static_cast<size_t>(shape.numel()));
  for (double& value : data) value = values(engine);
  return from_vector(data, shape, {.dtype = dtype, .device = device});
}

// The same values with the memory order of the axes given, outermost first.
inline Tensor with_layout(const Tensor& tensor, const std::vector<int>& order) {
  Strides strides = tensor.shape();
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= tensor.shape()[order[i]];
  }
  const std::vector<double> values = tensor.to_vector();
  const Strides dense = contiguous_strides(tensor.shape());
  std::vector<double> stored(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t to = 0;
    for (int axis = 0; axis < strides.size(); ++axis) {
      to += static_cast<int64_t>(i) / dense[axis] % tensor.shape()[axis] * strides[axis];
    }
    stored[static_cast<size_t>(to)] = values[i];
  }
  return from_vector(stored, tensor.shape(), {.dtype = tensor.dtype()})
      .as_strided(tensor.shape(), strides);
}
// (N, C, H, W) with the strides of N H W C.
inline Tensor channels_last(const Tensor& tensor) { return with_layout(tensor, {0, 2, 3, 1}); }

// Largest |a - b| / max(1, max |b|), the measure of all our comparisons; NaN counts as infinite.
inline double max_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double error = 0;
  double scale = 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    error = difference <= error ? error : std::isnan(difference) ? INFINITY : difference;
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

// What max_error may be when sums of about a hundred products are rounded to `dtype`.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    default:
      return 2e-6;
  }
}

}  // namespace tenon::testing
