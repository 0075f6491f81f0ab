// Slots of scaled dot-product attention. No matrix of queries times keys is ever stored
// (FlashAttention, Dao et al. 2022): memory grows with the number of tokens, not with its square.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

struct AttentionParams {
  // Query t sees keys up to t + S - T, of which nothing beyond is computed; wants T <= S.
  bool causal = true;
  double scale = 1;  // of the scores
};

// out = softmax(scale q k^T) v: q, out (B, H, T, D), k, v (B, G, S, D) with H a multiple of G: head
// h reads head h / (H / G) of k and v. Any strides but in D, which is dense. log_sum_exp (B, H, T)
// is contiguous, in the compute dtype, and what backward needs.
inline constinit KernelSlot<void(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                                 Tensor& log_sum_exp, const AttentionParams&)>
    attention{"attention"};
// dq, dk and dv have the shapes of q, k and v, dense in D; they are overwritten.
inline constinit KernelSlot<void(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& out, const Tensor& log_sum_exp, const Tensor& dout,
                                 Tensor& dq, Tensor& dk, Tensor& dv, const AttentionParams&)>
    attention_backward{"attention_backward"};

inline const KernelSlotBase* const kAttentionSlots[] = {&attention, &attention_backward};

}  // namespace tenon::kernels
