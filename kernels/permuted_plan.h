// Copies between two memory orders, for example row-major and channels-last or a transposed matrix:
// in square tiles, so that both sides are read and written in whole cache lines.
#pragma once

#include <optional>

#include "tenon/kernels/loop_plan.h"

namespace tenon::kernels {

// `to` is dense along columns and `from` along rows; the rest of the dimensions is walked outside.
struct PermutedPlan {
  LoopPlan outer;  // operands: to, from
  int64_t rows;
  int64_t columns;
  int64_t to_stride;    // from row to row
  int64_t from_stride;  // from column to column
};

// Nothing unless `plan` (operands: to, from) has the elements of `to` and of `from` next to each
// other along different dimensions.
std::optional<PermutedPlan> permuted_plan(const LoopPlan& plan);

}  // namespace tenon::kernels
