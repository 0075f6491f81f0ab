// Matrix products of raw tensors with the shapes that ops have. Internal to autograd.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon::detail {

// (…, M, N) as (…, N, M).
Tensor swap_last(const Tensor& x);
// x (…, D) as (R, D).
Tensor rows_of(const Tensor& x);
// out = a b, or += where `accumulate`, also for an `out` of more dimensions than a (M, K) and
// b (K, N) have.
void product_into(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate);

}  // namespace tenon::detail
