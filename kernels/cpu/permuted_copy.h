// Copies between two memory orders, for example row-major and channels-last or a transposed matrix:
// in square tiles, so that both sides are read and written in whole cache lines.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/loop_plan.h"

namespace tenon::kernels::cpu {

// Whether `plan` (operands: to, from) has the elements of `to` and of `from` next to each other
// along different dimensions.
bool is_permuted(const LoopPlan& plan);
// Requires is_permuted(plan).
void copy_permuted(const LoopPlan& plan, const Tensor& from, const Tensor& to);

}  // namespace tenon::kernels::cpu
