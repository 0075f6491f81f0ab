// Clipping gradients by the norm of all of them together. The norm is taken in one pass in f64.
// Ranks that hold shards add their power sums (or take the largest for the infinity norm) between
// the two halves, grad_power_sum and clip_to_norm.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

// If the norm of all present gradients is above max_norm, scales them by max_norm / norm. Returns
// the norm before. A norm that is not finite is an Error naming the first gradient to blame.
double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm,
                      double norm_type = 2);
double grad_norm(const std::vector<NamedTensor>& parameters, double norm_type = 2);

// Sum over all elements of |gradient|^norm_type; for infinity the largest |gradient|.
double grad_power_sum(const std::vector<NamedTensor>& parameters, double norm_type = 2);
// The norm that belongs to a power sum.
double norm_of_power_sum(double power_sum, double norm_type = 2);
// gradient = factor * gradient, of all that are present.
void scale_grads(const std::vector<NamedTensor>& parameters, double factor);
void clip_to_norm(const std::vector<NamedTensor>& parameters, double norm, double max_norm);

}  // namespace tenon
