// Linear layers and what is fused with them.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/matmul.h"

namespace tenon {

using kernels::Activation;

// activation(x W^T + bias): x (…, K), weight (N, K), bias (N) or undefined. One kernel.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);
// residual + x W^T + bias in one kernel: residual (…, N).
Tensor linear_add(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual);

enum class InputActivation : uint8_t { none, gelu, gelu_tanh, swiglu };
// linear(f(x), weight, bias), + residual where one is given: the second half of a transformer's
// MLP. Only x is kept for backward, which computes f(x) again. x (…, K); (…, 2 K) for swiglu.
Tensor activated_linear(InputActivation f, const Tensor& x, const Tensor& weight,
                        const Tensor& bias = {}, const Tensor& residual = {});

}  // namespace tenon
