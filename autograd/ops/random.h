// Random tensors, from the rank's `dropout` generator unless another is given. No gradient.
#pragma once

#include "tenon/core/factory.h"
#include "tenon/core/random.h"

namespace tenon {

Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
void uniform_(const Tensor& x, double low, double high, Generator* generator = nullptr);
void normal_(const Tensor& x, double mean, double stddev, Generator* generator = nullptr);

}  // namespace tenon
