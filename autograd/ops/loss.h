// Losses, all giving a scalar.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/loss.h"

namespace tenon {

using CrossEntropyOptions = kernels::CrossEntropyParams;

// -log softmax(logits)[target], summed over rows and divided by options.divisor, or by the number
// of rows that count. logits (…, C), targets (…) i64 or i32. The result is f32, or f64 for f64
// logits. Backward computes the gradient in the logits' memory if nobody else holds them.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});
// -log_probabilities[target] averaged over rows: the second half of cross_entropy.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets);
// mean((a - b)^2).
Tensor mse_loss(const Tensor& a, const Tensor& b);

}  // namespace tenon
