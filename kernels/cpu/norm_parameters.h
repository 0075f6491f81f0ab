// Reading the affine parameters of a normalisation layer and writing their gradients.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon::kernels::cpu {

// The values of a (D) tensor in the compute type; `otherwise` n times if there is none.
template <class C>
std::vector<C> parameter_values(const Tensor* parameter, int64_t n, C otherwise);

// gradient = values, or += where `accumulate`; nothing for a null gradient.
void write_gradient(const std::vector<double>& values, Tensor* gradient, bool accumulate);

}  // namespace tenon::kernels::cpu
