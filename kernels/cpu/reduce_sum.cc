// Sums over any axes of any layout. The axes that stay and the axes that go are walked by a plan
// each, in the order of x's memory. Sums of a few elements are in the compute type, sums of those
// in f64, over blocks whose size depends on the shape alone: so neither accuracy nor bits depend on
// the number of threads.
#include <algorithm>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/cpu/row_math.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;
using cpu::kChunk;
using cpu::LoopCursor;
using cpu::LoopPlan;

constexpr int64_t kBlockElements = 32 << 10;  // of x, per partial sum
constexpr int64_t kFlushRows = 32;            // rows added in the compute type before f64

// Integers add in i64, everything else in f64.
template <class C>
using Wide = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

struct SumPlan {
  LoopPlan kept;     // operands: x, out
  LoopPlan reduced;  // operand: x
};

SumPlan make_plan(const Tensor& x, const Tensor& out, AxisMask axes) {
  Shape kept_shape, reduced_shape;
  Strides kept_x, kept_out, reduced_x;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if ((axes >> axis & 1u) != 0) {
      reduced_shape.push_back(x.shape()[axis]);
      reduced_x.push_back(x.strides()[axis]);
    } else {
      kept_shape.push_back(x.shape()[axis]);
      kept_x.push_back(x.strides()[axis]);
      kept_out.push_back(out.strides()[axis]);
    }
  }
  const std::array<const Strides*, 2> kept{&kept_x, &kept_out};
  const std::array<const Strides*, 1> reduced{&reduced_x};
  return {LoopPlan(kept_shape, kept), LoopPlan(reduced_shape, reduced)};
}

// Partial sums: [block][kept], kept in the order of the kept plan.
template <class C>
struct Partials {
  int64_t block_size;  // reduced elements in a block
  int64_t blocks;
  std::vector<Wide<C>> sums;
};

// One sum per row of x: the reduced elements lie together.
template <class C>
void sum_rows(const SumPlan& plan, const Tensor& x, Partials<C>& partials, int64_t bytes) {
  const ChunkOperand<C> operand(plan.reduced, 0, x);
  const int64_t kept = plan.kept.count;
  parallel_for(kept * partials.blocks, bytes, [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[kChunk];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t shift = LoopCursor(plan.kept, task % kept).offset(0);
      int64_t at = task / kept * partials.block_size;
      const int64_t stop = std::min(at + partials.block_size, plan.reduced.count);
      Wide<C> sum = 0;
      for (int64_t n = 0; at < stop; at += n) {
        n = cpu::chunk_length(plan.reduced, at, stop);
        sum += static_cast<Wide<C>>(cpu::row_sum(operand.load(at, n, buffer, shift), n));
      }
      partials.sums[static_cast<size_t>(task)] = sum;
    }
  });
}

// Adds rows of x to rows of sums: the kept elements lie together.
template <class C>
void sum_columns(const SumPlan& plan, const Tensor& x, Partials<C>& partials, int64_t bytes) {
  const ChunkOperand<C> operand(plan.kept, 0, x);
  const int64_t kept = plan.kept.count;
  const int64_t columns = (kept + kChunk - 1) / kChunk;
  parallel_for(columns * partials.blocks, bytes, [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[kChunk];
    alignas(64) C sum[kChunk];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % columns * kChunk;
      const int64_t n = std::min(kChunk, kept - column);
      const int64_t block = task / columns;
      Wide<C>* const wide = partials.sums.data() + block * kept + column;
      LoopCursor cursor(plan.reduced, block * partials.block_size);
      int64_t rows =
          std::min(partials.block_size, plan.reduced.count - block * partials.block_size);
      while (rows > 0) {
        std::fill_n(sum, n, C{0});
        for (int64_t row = std::min(rows, kFlushRows); row > 0; --row, --rows) {
          const C* values = operand.load(column, n, buffer, cursor.offset(0));
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) sum[i] += values[i];
          cursor.advance(1);
        }
        for (int64_t i = 0; i < n; ++i) wide[i] += static_cast<Wide<C>>(sum[i]);
      }
    }
  });
}

// Adds the blocks up in order and writes the result.
template <class C, class T>
void finish(const SumPlan& plan, const Partials<C>& partials, Tensor& out, double scale,
            bool accumulate) {
  T* const data = out.data<T>();
  const int64_t kept = plan.kept.count;
  parallel_for(kept, kept * partials.blocks * 8, [&](int64_t begin, int64_t end) {
    LoopCursor cursor(plan.kept, begin);
    for (int64_t i = begin; i < end; ++i) {
      Wide<C> sum = 0;
      for (int64_t block = 0; block < partials.blocks; ++block) {
        sum += partials.sums[static_cast<size_t>(block * kept + i)];
      }
      T& element = data[cursor.offset(1)];
      if (scale != 1) sum = static_cast<Wide<C>>(static_cast<double>(sum) * scale);
      if (accumulate) sum += static_cast<Wide<C>>(static_cast<Compute<T>>(element));
      element = static_cast<T>(static_cast<Compute<T>>(sum));
      cursor.advance(1);
    }
  });
}

void sum_cpu(const Tensor& x, Tensor& out, AxisMask axes, double scale, bool accumulate) {
  if (out.numel() == 0) return;
  const SumPlan plan = make_plan(x, out, axes);
  const int64_t kept = plan.kept.count;
  const int64_t reduced = plan.reduced.count;
  const bool by_rows =
      reduced >= 32 && (kept < 32 || plan.reduced.inner_stride(0) <= plan.kept.inner_stride(0));
  const DType type = is_floating(x.dtype()) ? compute_dtype(x.dtype()) : DType::i64;
  const int64_t bytes = x.numel() * static_cast<int64_t>(size_of(x.dtype()));
  dispatch_types<float, double, int64_t>(type, "sum", [&]<class C>() {
    Partials<C> partials;
    const int64_t row = by_rows ? 1 : std::min(kept, kChunk);
    partials.block_size = std::max<int64_t>(kBlockElements / row, kFlushRows);
    partials.blocks =
        std::max<int64_t>((reduced + partials.block_size - 1) / partials.block_size, 1);
    partials.sums.resize(static_cast<size_t>(kept * partials.blocks));
    if (reduced > 0 && by_rows) sum_rows(plan, x, partials, bytes);
    if (reduced > 0 && !by_rows) sum_columns(plan, x, partials, bytes);
    dispatch_types<float, double, Float16, BFloat16, int64_t, int32_t>(
        out.dtype(), "sum",
        [&]<class T>() { finish<C, T>(plan, partials, out, scale, accumulate); });
  });
}

[[maybe_unused]] const bool registered = sum.set(DeviceType::cpu, sum_cpu);

}  // namespace
}  // namespace tenon::kernels
