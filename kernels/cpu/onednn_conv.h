// Convolution through oneDNN: f32 and, where the processor has it, bf16.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/conv.h"

namespace tenon::kernels::onednn {

// Images are channels-last, weights row-major, no size is 0; one dtype unless said otherwise.

// The bias, f32 or of x's dtype, may be null.
void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor& y,
            const ConvParams& params);
void conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                           const ConvParams& params);
// dweight and dbias are f32; dbias may be null and is overwritten.
void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                            const Tensor* dbias, const ConvParams& params, bool accumulate);

}  // namespace tenon::kernels::onednn
