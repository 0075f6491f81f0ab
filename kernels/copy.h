// Slots of copies: strides, dtypes and single axes.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

// to = from, converting dtype and layout; one shape (from may have strides of 0). Floating to
// integer truncates; to bool is != 0.
inline constinit KernelSlot<void(const Tensor& from, Tensor& to)> copy{"copy"};
inline constinit KernelSlot<void(Tensor& out, double value)> fill{"fill"};
// out = x taken at `ids` (1-d, i64 or i32) along `axis`. An id out of range is an Error.
inline constinit KernelSlot<void(const Tensor& x, const Tensor& ids, Tensor& out, int axis)>
    index_select{"index_select"};
// dx += dout at `ids` along `axis`, in the order of ids.
inline constinit KernelSlot<void(const Tensor& dout, const Tensor& ids, Tensor& dx, int axis)>
    index_add{"index_add"};

inline const KernelSlotBase* const kCopySlots[] = {&copy, &fill, &index_select, &index_add};

}  // namespace tenon::kernels
