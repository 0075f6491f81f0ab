// Softmax and its logarithm.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace tenon
