// Matrix products.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

// a (…, M, K) times b (…, K, N); leading dimensions broadcast. Both have at least 2 dimensions.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace tenon
