// Convolution as matrix products over unfolded images, for f64, and for f32 where oneDNN is
// missing. Images are channels-last, weights row-major, all of one dtype; any size may be 0.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/conv.h"

namespace tenon::kernels {

void eigen_conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor& y,
                  const ConvParams& params);
void eigen_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                                 const ConvParams& params);
void eigen_conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                  const ConvParams& params, bool accumulate);

}  // namespace tenon::kernels
