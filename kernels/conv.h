// Slots of 2-d convolution. Shapes: x (N, C, H, W), weight (K, C / groups, R, S), y (N, K, P, Q).
// Tensors may be row-major or channels-last (shape N C H W with the strides of N H W C); other
// layouts are copied by the kernel.
#pragma once

#include <array>

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/matmul.h"

namespace tenon::kernels {

struct ConvParams {
  std::array<int64_t, 2> stride{1, 1};
  std::array<int64_t, 2> padding{0, 0};
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;
};

// y = activation(x * weight + bias); bias (K) may be null; activation is none or relu.
inline constinit KernelSlot<void(const Tensor& x, const Tensor& weight, const Tensor* bias,
                                 Tensor& y, const ConvParams&, Activation)>
    conv2d{"conv2d"};
inline constinit KernelSlot<void(const Tensor& dy, const Tensor& weight, Tensor& dx,
                                 const ConvParams&, bool accumulate)>
    conv2d_backward_input{"conv2d_backward_input"};
// dbias may be null; `accumulate` holds for dweight, `accumulate_bias` for dbias.
inline constinit KernelSlot<void(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor* dbias,
                                 const ConvParams&, bool accumulate, bool accumulate_bias)>
    conv2d_backward_weight{"conv2d_backward_weight"};

inline const KernelSlotBase* const kConvSlots[] = {&conv2d, &conv2d_backward_input,
                                                   &conv2d_backward_weight};

}  // namespace tenon::kernels
