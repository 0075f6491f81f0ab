// What layers share: empty parameters of the default dtype, PyTorch's default initial values, and a
// size in two dimensions.
#pragma once

#include <array>

#include "tenon/core/tensor.h"

namespace tenon::nn {

// A height and a width; one number means both.
struct Size2 {
  std::array<int64_t, 2> value;
  Size2(int64_t both) : value{both, both} {}  // NOLINT: meant to be implicit
  Size2(int64_t height, int64_t width) : value{height, width} {}
};

// Memory of default_dtype() for a parameter.
Tensor new_parameter(const Shape& shape);
// A weight (outputs, inputs, kernel…) and, if `with_bias`, its bias (outputs), else undefined:
// uniform within 1 / sqrt(fan in).
Tensor new_weight(const Shape& shape);
Tensor new_bias(const Tensor& weight, bool with_bias);
// `value`, if `wanted`, in every element; else undefined.
Tensor new_constant(const Shape& shape, double value, bool wanted = true);

// Errors that name the layer.
void check_positive(const char* layer, const char* what, int64_t value);

}  // namespace tenon::nn
