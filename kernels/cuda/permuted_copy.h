// Copies between two memory orders on the GPU: square tiles pass through shared memory, so that
// both sides are read and written by neighbouring threads in neighbouring places.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/permuted_plan.h"

namespace tenon::kernels::cuda {

// False, and nothing done, where tiles do not pay (short sides) or for integers that change their
// dtype: the walk of strided.h takes those.
bool copy_permuted(const PermutedPlan& plan, const Tensor& from, const Tensor& to);

}  // namespace tenon::kernels::cuda
