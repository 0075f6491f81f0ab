// Slots of normalisation layers. Statistics are kept in the compute dtype (f32, or f64 for f64).
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

// Rows of D elements: x, y (R, D) contiguous; gamma, beta (D) may be null; mean, rstd (R).
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor* beta,
                                 Tensor& y, Tensor& mean, Tensor& rstd, double eps)>
    layer_norm{"layer_norm"};
// Which results are added to what is there.
struct NormAccumulate {
  bool input = false;       // dx
  bool parameters = false;  // dgamma, dbeta
};
// Any of dx, dgamma, dbeta may be null.
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                                 Tensor* dbeta, NormAccumulate)>
    layer_norm_backward{"layer_norm_backward"};

// y = x * rstd * gamma with rstd = 1 / sqrt(mean of x^2 + eps) (RMSNorm, Zhang and Sennrich 2019):
// x, y (R, D) contiguous; gamma (D) may be null; rstd (R).
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, Tensor& y, Tensor& rstd,
                                 double eps)>
    rms_norm{"rms_norm"};
// dx, dgamma may be null.
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor& rstd,
                                 const Tensor& dy, Tensor* dx, Tensor* dgamma, NormAccumulate)>
    rms_norm_backward{"rms_norm_backward"};

// x, y (N, C, L) or (N, C, H, W), row-major or channels-last; gamma, beta (C) may be null.
// mean, rstd (C) receive the batch statistics (biased variance).
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor* beta,
                                 Tensor& y, Tensor& mean, Tensor& rstd, double eps)>
    batch_norm{"batch_norm"};
// y = (x - mean) * rstd * gamma + beta with given statistics (inference).
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor* beta,
                                 const Tensor& mean, const Tensor& rstd, Tensor& y)>
    batch_norm_inference{"batch_norm_inference"};
// `batch_statistics`: mean and rstd depend on x (training); otherwise they are constants.
inline constinit KernelSlot<void(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                                 Tensor* dbeta, bool batch_statistics, bool accumulate)>
    batch_norm_backward{"batch_norm_backward"};

inline const KernelSlotBase* const kNormSlots[] = {
    &layer_norm, &layer_norm_backward,  &rms_norm,           &rms_norm_backward,
    &batch_norm, &batch_norm_inference, &batch_norm_backward};

}  // namespace tenon::kernels
