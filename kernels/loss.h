// Slots of the losses over classes: the fused cross-entropy, and the negative log-likelihood.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

struct CrossEntropyParams {
  int64_t ignore_index = -100;  // rows with this target count for nothing
  double label_smoothing = 0;   // mixes the target with the uniform distribution
  double z_loss = 0;            // times log_sum_exp^2 is added to a row's loss (PaLM)
  double divisor = 0;           // loss = sum / divisor; 0: the number of rows that count
};

// logits (N, C), targets (N) i64 or i32; loss () and weight () in the compute dtype (f32 or f64),
// log_sum_exp (N) in the compute dtype. weight = 1 / divisor, kept for backward; with divisor 0 and
// no row that counts both loss and weight are 0. A target outside [0, C) is an Error with its row.
inline constinit KernelSlot<void(const Tensor& logits, const Tensor& targets, Tensor& loss,
                                 Tensor& log_sum_exp, Tensor& weight, const CrossEntropyParams&)>
    cross_entropy{"cross_entropy"};
// dlogits is overwritten, and may be logits; dloss ().
inline constinit KernelSlot<void(const Tensor& logits, const Tensor& targets,
                                 const Tensor& log_sum_exp, const Tensor& weight,
                                 const Tensor& dloss, Tensor& dlogits, const CrossEntropyParams&)>
    cross_entropy_backward{"cross_entropy_backward"};

// log_probabilities (N, C), targets (N) i64 or i32; loss () in the compute dtype, minus the mean of
// the elements that the targets name, 0 without rows. A target outside [0, C) is an Error with
// its row.
inline constinit KernelSlot<void(const Tensor& log_probabilities, const Tensor& targets,
                                 Tensor& loss)>
    nll_loss{"nll_loss"};
// dlog_probabilities (N, C) is overwritten; dloss ().
inline constinit KernelSlot<void(const Tensor& targets, const Tensor& dloss,
                                 Tensor& dlog_probabilities)>
    nll_loss_backward{"nll_loss_backward"};

inline const KernelSlotBase* const kLossSlots[] = {&cross_entropy, &cross_entropy_backward,
                                                   &nll_loss, &nll_loss_backward};

}  // namespace tenon::kernels
