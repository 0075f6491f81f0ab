// Reductions. `axes` may be negative; an empty list means all axes.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
// Largest and smallest values along an axis; the gradient goes to the first of equal ones.
Tensor max(const Tensor& x, int axis, bool keepdim = false);
Tensor min(const Tensor& x, int axis, bool keepdim = false);
// Indices (i64) of the first largest or smallest value.
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis, bool keepdim = false);
// Sums x over the dimensions in which `shape` was broadcast to x's shape. No gradient.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace tenon
