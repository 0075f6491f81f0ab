// Dropout.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

// Zeroes elements with probability p and scales the rest by 1 / (1 - p), with the numbers of the
// rank's dropout generator. p = 0 or !training returns x.
Tensor dropout(const Tensor& x, double p, bool training = true);

}  // namespace tenon
