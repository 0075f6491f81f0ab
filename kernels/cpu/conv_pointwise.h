// Convolutions with a 1x1 kernel are matrix products of pixels and weights. Besides being simpler,
// this keeps them away from oneDNN 2.6, whose 1x1 kernels for channels-last images give wrong bf16
// input gradients for odd K and write past their scratchpad where they stride.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/conv.h"

namespace tenon::kernels {

bool is_pointwise(const Tensor& weight, const ConvParams& params);

// As the slots of kernels/conv.h, for weights and parameters that are pointwise.
void pointwise_conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y,
                      const ConvParams& params, Activation activation);
void pointwise_conv2d_backward_input(const Tensor& dy, const Tensor& weight, Tensor& dx,
                                     const ConvParams& params, bool accumulate);
void pointwise_conv2d_backward_weight(const Tensor& x, const Tensor& dy, Tensor& dweight,
                                      const ConvParams& params, bool accumulate);

}  // namespace tenon::kernels
