// Sums over some axes of any layout, of the elements of a tensor or of values made from several.
// The axes that stay (kept) and those that go (reduced) are walked by a plan each, in the order of
// memory. Sums of a few elements are in the compute type, sums of those in f64, over blocks whose
// size depends on the shape alone: so neither accuracy nor bits depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels::cpu {

inline constexpr int64_t kSumBlock = 32 << 10;  // elements per partial sum
inline constexpr int64_t kSumRows = 32;         // rows added in the compute type before f64

// Integers add in i64, everything else in f64.
template <class C>
using Wide = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

struct SumPlan {
  LoopPlan kept;
  LoopPlan reduced;
  int64_t bytes;  // read by all of it

  // A row: reduced elements that lie together; otherwise the kept ones do.
  bool by_rows() const {
    return reduced.count >= kSumRows &&
           (kept.count < kSumRows || reduced.inner_stride(0) <= kept.inner_stride(0));
  }
  int64_t block_size() const {  // reduced elements
    const int64_t row = by_rows() ? 1 : std::min(kept.count, kChunk);
    return std::max<int64_t>(kSumBlock / row, kSumRows);
  }
  int64_t blocks() const { return (reduced.count + block_size() - 1) / block_size(); }
};

// Values of one operand. A source gives the values [at, at + n) of a row, whose place is a cursor
// of the kept plan, or of a column, whose place is a cursor of the reduced plan.
template <class C>
class PlainSource {
 public:
  PlainSource(const SumPlan& plan, const Tensor& x)
      : operand_(plan.by_rows() ? plan.reduced : plan.kept, 0, x) {}
  const C* row(int64_t, const LoopCursor& kept, const LoopCursor& reduced, int64_t n,
               C* buffer) const {
    return operand_.load_row(kept.offset(0) + reduced.offset(0), n, buffer);
  }
  const C* columns(const LoopCursor& place, int64_t at, int64_t n, C* buffer) const {
    return operand_.load(at, n, buffer, place.offset(0));
  }

 private:
  ChunkOperand<C> operand_;
};

template <class C, class Source>
void sum_rows(const SumPlan& plan, const Source& source, std::vector<Wide<C>>& partials) {
  const int64_t kept = plan.kept.count;
  const int64_t block_size = plan.block_size();
  parallel_for(kept * plan.blocks(), plan.bytes, [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[kChunk];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t index = task % kept;
      const LoopCursor place(plan.kept, index);
      const int64_t first = task / kept * block_size;
      int64_t left = std::min(block_size, plan.reduced.count - first);
      LoopCursor walk(plan.reduced, first);
      Wide<C> sum = 0;
      while (left > 0) {
        const int64_t n = std::min({walk.left(), kChunk, left});
        sum += static_cast<Wide<C>>(row_sum(source.row(index, place, walk, n, buffer), n));
        walk.advance(n);
        left -= n;
      }
      partials[static_cast<size_t>(task)] = sum;
    }
  });
}

template <class C, class Source>
void sum_columns(const SumPlan& plan, const Source& source, std::vector<Wide<C>>& partials) {
  const int64_t kept = plan.kept.count;
  const int64_t columns = (kept + kChunk - 1) / kChunk;
  const int64_t block_size = plan.block_size();
  parallel_for(columns * plan.blocks(), plan.bytes, [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[kChunk];
    alignas(64) C sum[kChunk];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % columns * kChunk;
      const int64_t n = std::min(kChunk, kept - column);
      const int64_t block = task / columns;
      Wide<C>* const wide = partials.data() + block * kept + column;
      LoopCursor place(plan.reduced, block * block_size);
      int64_t rows = std::min(block_size, plan.reduced.count - block * block_size);
      while (rows > 0) {
        std::fill_n(sum, n, C{0});
        for (int64_t row = std::min(rows, kSumRows); row > 0; --row, --rows) {
          const C* values = source.columns(place, column, n, buffer);
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) sum[i] += values[i];
          place.advance(1);
        }
        for (int64_t i = 0; i < n; ++i) wide[i] += static_cast<Wide<C>>(sum[i]);
      }
    }
  });
}

// One sum per kept element, in the order of the kept plan.
template <class C, class Source>
std::vector<Wide<C>> sum_over(const SumPlan& plan, const Source& source) {
  const int64_t kept = plan.kept.count;
  const int64_t blocks = plan.blocks();
  std::vector<Wide<C>> partials(static_cast<size_t>(kept * std::max<int64_t>(blocks, 1)));
  if (plan.by_rows()) {
    sum_rows<C>(plan, source, partials);
  } else if (blocks > 0) {
    sum_columns<C>(plan, source, partials);
  }
  for (int64_t block = 1; block < blocks; ++block) {
    for (int64_t i = 0; i < kept; ++i) {
      partials[static_cast<size_t>(i)] += partials[static_cast<size_t>(block * kept + i)];
    }
  }
  partials.resize(static_cast<size_t>(kept));
  return partials;
}

}  // namespace tenon::kernels::cpu
