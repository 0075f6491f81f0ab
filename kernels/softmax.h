// Slots of softmax and log-softmax along an axis. Tensors of one shape; any strides.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

inline constinit KernelSlot<void(const Tensor& x, Tensor& y, int axis)> softmax{"softmax"};
inline constinit KernelSlot<void(const Tensor& y, const Tensor& dy, Tensor& dx, int axis)>
    softmax_backward{"softmax_backward"};
inline constinit KernelSlot<void(const Tensor& x, Tensor& y, int axis)> log_softmax{"log_softmax"};
inline constinit KernelSlot<void(const Tensor& y, const Tensor& dy, Tensor& dx, int axis)>
    log_softmax_backward{"log_softmax_backward"};

inline const KernelSlotBase* const kSoftmaxSlots[] = {&softmax, &softmax_backward, &log_softmax,
                                                      &log_softmax_backward};

}  // namespace tenon::kernels
