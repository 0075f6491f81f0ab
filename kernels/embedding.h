// Slots of row look-up and its transpose.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

// out (R, D) = weight (V, D) [ids (R)], ids i64 or i32. An id outside [0, V) is an Error with its
// place.
inline constinit KernelSlot<void(const Tensor& weight, const Tensor& ids, Tensor& out)> embedding{
    "embedding"};
// dweight [ids] += dout, in the order of ids; zeroed first unless `accumulate`. dweight may be f32
// for 16-bit dout.
inline constinit KernelSlot<void(const Tensor& dout, const Tensor& ids, Tensor& dweight,
                                 bool accumulate)>
    embedding_backward{"embedding_backward"};

inline const KernelSlotBase* const kEmbeddingSlots[] = {&embedding, &embedding_backward};

}  // namespace tenon::kernels
