// Look-ups by index tensors (i64 or i32).
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

// Rows of weight (V, D) for ids of any shape (…): (…, D).
Tensor embedding(const Tensor& weight, const Tensor& ids);
// x taken at `ids` (1-d) along `axis`.
Tensor index_select(const Tensor& x, const Tensor& ids, int axis = 0);

}  // namespace tenon
