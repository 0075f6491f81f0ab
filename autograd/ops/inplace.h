// Changes of a tensor's values in place. Refused while recording for tensors that require a
// gradient (use NoGrad); each counts as a new version of the values.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon {

void fill_(const Tensor& x, double value);
// x = source, broadcast and converted.
void copy_(const Tensor& x, const Tensor& source);
// x += alpha * y, of one shape.
void add_(const Tensor& x, const Tensor& y, double alpha = 1);
void mul_(const Tensor& x, double factor);

}  // namespace tenon
