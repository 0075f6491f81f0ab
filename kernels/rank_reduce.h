// Slot of the reduction over ranks, the heart of every CPU collective.
#pragma once

#include <span>

#include "tenon/core/dtype.h"
#include "tenon/core/kernel_slot.h"

namespace tenon::kernels {

enum class ReduceOp : uint8_t { sum, mean, max, min };

// destination[j][i] = op over ranks r = 0 … N-1 of sources[r][i], in that order, for every j: in
// f32 for f32 and the 16-bit formats, f64 for f64, i64 for i64, rounded once. mean divides by
// `divisor` ranks before the rounding. A destination may be one of the sources.
struct RankReduce {
  std::span<const void* const> sources;
  std::span<void* const> destinations;
  int64_t count = 0;  // elements
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int divisor = 1;
};
inline constinit KernelSlot<void(const RankReduce&)> rank_reduce{"rank_reduce"};

inline const KernelSlotBase* const kRankReduceSlots[] = {&rank_reduce};

}  // namespace tenon::kernels
