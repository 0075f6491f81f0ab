// Slots of 2-d pooling. Shapes: x (N, C, H, W), y (N, C, P, Q); row-major or channels-last.
#pragma once

#include <array>

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

struct PoolParams {
  std::array<int64_t, 2> kernel{2, 2};
  std::array<int64_t, 2> stride{2, 2};
  std::array<int64_t, 2> padding{0, 0};
};

// `window` (u8 or i32, y's shape and strides): the position of the largest element in its window,
// r * kernel[1] + s; padding never wins; the first of equal elements does.
inline constinit KernelSlot<void(const Tensor& x, Tensor& y, Tensor& window, const PoolParams&)>
    max_pool2d{"max_pool2d"};
// dx is overwritten.
inline constinit KernelSlot<void(const Tensor& dy, const Tensor& window, Tensor& dx,
                                 const PoolParams&)>
    max_pool2d_backward{"max_pool2d_backward"};
// Averages over kernel[0] * kernel[1] elements; padding counts as zeros (PyTorch's default).
inline constinit KernelSlot<void(const Tensor& x, Tensor& y, const PoolParams&)> avg_pool2d{
    "avg_pool2d"};
inline constinit KernelSlot<void(const Tensor& dy, Tensor& dx, const PoolParams&)>
    avg_pool2d_backward{"avg_pool2d_backward"};

inline const KernelSlotBase* const kPoolSlots[] = {&max_pool2d, &max_pool2d_backward, &avg_pool2d,
                                                   &avg_pool2d_backward};

}  // namespace tenon::kernels
