// Slot of rotary position embedding (RoFormer, Su et al. 2021), in the half-split form of Llama.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

struct RotaryParams {
  int64_t heads = 0;     // the first so many of N are turned, the others copied
  bool inverse = false;  // turns back: what backward does to gradients
};

// out = x with each pair (x[i], x[i + D / 2]) of a head turned by the angle of its position:
// x, out (B, T, N, D), any strides but in D, which is dense and even; out may be x. cosines, sines
// (T, D / 2), contiguous, in the compute dtype.
inline constinit KernelSlot<void(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                                 Tensor& out, const RotaryParams&)>
    rotary{"rotary"};

inline const KernelSlotBase* const kRotarySlots[] = {&rotary};

}  // namespace tenon::kernels
