// Copies in square tiles between two memory orders.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/permuted_plan.h"

namespace tenon::kernels::cpu {

void copy_permuted(const PermutedPlan& plan, const Tensor& from, const Tensor& to);

}  // namespace tenon::kernels::cpu
