// Matrix products.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/matmul.h"

namespace tenon {

using kernels::Activation;

// a (…, M, K) times b (…, K, N); leading dimensions broadcast. Both have at least 2 dimensions.
Tensor matmul(const Tensor& a, const Tensor& b);
// activation(x W^T + bias): x (…, K), weight (N, K), bias (N) or undefined. One kernel.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace tenon
