// Slots of reductions over axes.
#pragma once

#include <cstdint>

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

// Bit i set: axis i is reduced.
using AxisMask = uint32_t;

// out = scale * sum of x over `axes` (accumulate: out += …). `out` has x's rank with size 1 in the
// reduced axes. Floating dtypes, i64 and i32; 16-bit formats add in f32.
inline constinit KernelSlot<void(const Tensor& x, Tensor& out, AxisMask axes, double scale,
                                 bool accumulate)>
    sum{"sum"};
// Largest value along `axis` and its first index (i64); both outputs have size 1 there.
// NaN wins over every number, as in IEEE maximum.
inline constinit KernelSlot<void(const Tensor& x, Tensor& values, Tensor& indices, int axis)> max{
    "max"};
inline constinit KernelSlot<void(const Tensor& x, Tensor& values, Tensor& indices, int axis)> min{
    "min"};
// dx[…, indices, …] += dy along `axis`: the gradient of max and min. dx is zeroed by the caller.
inline constinit KernelSlot<void(const Tensor& dy, const Tensor& indices, Tensor& dx, int axis)>
    scatter_add{"scatter_add"};
// out (one f64) = sum over all tensors of |x|^p; p = infinity gives max |x|. For gradient norms.
inline constinit KernelSlot<void(const std::vector<Tensor>& tensors, double p, Tensor& out)>
    power_sum{"power_sum"};

inline const KernelSlotBase* const kReduceSlots[] = {&sum, &max, &min, &scatter_add, &power_sum};

}  // namespace tenon::kernels
