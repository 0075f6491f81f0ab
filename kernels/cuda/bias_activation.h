// The pass over a library's result that adds a bias and applies an activation.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/matmul.h"

namespace tenon::kernels::cuda {

// y = activation(y + bias) in place; bias (length of `axis`) may be null.
void add_bias_and_activate(const char* op, Tensor& y, const Tensor* bias, int axis,
                           Activation activation);

}  // namespace tenon::kernels::cuda
