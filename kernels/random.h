// Slots of random kernels. Element i in row-major order uses number i of the Philox key, so results
// depend neither on the device nor on the split over threads. Outputs are contiguous.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/random.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

// Uniform in [low, high); floating dtypes.
inline constinit KernelSlot<void(Tensor& out, double low, double high, const PhiloxKey&)> uniform{
    "uniform"};
// Normal by Box-Muller in the compute dtype: elements 2 i and 2 i + 1 are r cos(a) and r sin(a)
// with r = sqrt(-2 log(1 - u)) and a = 2 pi v of numbers u = 2 i and v = 2 i + 1.
inline constinit KernelSlot<void(Tensor& out, double mean, double stddev, const PhiloxKey&)> normal{
    "normal"};
// y = mask * x / (1 - p), mask (u8, 1 = kept) with probability 1 - p. All contiguous, one shape.
inline constinit KernelSlot<void(const Tensor& x, Tensor& y, Tensor& mask, double p,
                                 const PhiloxKey&)>
    dropout{"dropout"};
// dx = mask * dy / (1 - p); dy may have any strides.
inline constinit KernelSlot<void(const Tensor& dy, const Tensor& mask, Tensor& dx, double p)>
    dropout_backward{"dropout_backward"};

inline const KernelSlotBase* const kRandomSlots[] = {&uniform, &normal, &dropout,
                                                     &dropout_backward};

}  // namespace tenon::kernels
