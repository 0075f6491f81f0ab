// Views and joins. Views share memory with their input; reshape copies only when it must.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

// One size may be -1: it follows from the others.
Tensor reshape(const Tensor& x, const Shape& shape);
// Joins the axes first … last into one.
Tensor flatten(const Tensor& x, int first = 0, int last = -1);
Tensor permute(const Tensor& x, const std::vector<int>& order);
Tensor transpose(const Tensor& x, int a = -2, int b = -1);
// `length` entries along `axis` from `start` on.
Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length);
// Entry `index` along `axis`, which disappears. A negative index counts from the end.
Tensor select(const Tensor& x, int axis, int64_t index);
Tensor unsqueeze(const Tensor& x, int axis);
Tensor squeeze(const Tensor& x, int axis);
// Broadcasts to `shape`.
Tensor expand(const Tensor& x, const Shape& shape);
// Row-major without gaps; x itself if it is already.
Tensor contiguous(const Tensor& x);
// A row-major copy of its own memory.
Tensor clone(const Tensor& x);
Tensor concat(const std::vector<Tensor>& tensors, int axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, int axis = 0);

}  // namespace tenon
