// 2-d convolution and pooling. Results of convolutions are channels-last in memory.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/conv.h"
#include "tenon/kernels/pool.h"

namespace tenon {

using kernels::Activation;
using kernels::ConvParams;
using kernels::PoolParams;

// x (N, C, H, W), weight (K, C / groups, R, S), bias (K) or undefined; activation none or relu is
// fused into the kernel.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvParams& params = {}, Activation activation = Activation::none);
Tensor max_pool2d(const Tensor& x, const PoolParams& params);
Tensor avg_pool2d(const Tensor& x, const PoolParams& params);

}  // namespace tenon
