// Normalisations.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

// Over the last dimension: x (…, D); gamma and beta (D) or undefined.
Tensor layer_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {},
                  double eps = 1e-5);

// x / sqrt(mean of x^2 + eps) * gamma over the last dimension: x (…, D); gamma (D) or undefined
// (RMSNorm, Zhang and Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Tensor& gamma = {}, double eps = 1e-6);

struct BatchNormOptions {
  bool training = true;  // use and update statistics of the batch; else the running ones
  double momentum = 0.1;
  double eps = 1e-5;
};
// x (N, C) or (N, C, L) or (N, C, H, W); gamma, beta (C) or undefined. running_mean and running_var
// (C), if defined, are updated in place when training (unbiased variance).
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});

}  // namespace tenon
