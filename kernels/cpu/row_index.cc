#include "tenon/kernels/cpu/row_index.h"

#include <algorithm>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"

namespace tenon::kernels::cpu {
namespace {

// The ids as i64, each checked.
std::vector<int64_t> checked_ids(const char* op, const Tensor& ids, int64_t limit) {
  std::vector<int64_t> result(static_cast<size_t>(ids.numel()));
  if (result.empty()) return result;
  TENON_CHECK(ids.ndim() == 1, op, "ids must be a list: given ", describe(ids));
  dispatch_types<int64_t, int32_t>(ids.dtype(), op, [&]<class T>() {
    row_converter(ids.dtype(), DType::i64)(ids.raw_data(), ids.strides()[0], result.data(), 1,
                                           ids.numel());
  });
  for (size_t i = 0; i < result.size(); ++i) {
    TENON_CHECK(result[i] >= 0 && result[i] < limit, op, "id out of range: given ", result[i],
                " at place ", i, ", wanted 0 to ", limit - 1);
  }
  return result;
}

}  // namespace

void take_slices(const char* op, const Tensor& x, const Tensor& ids, Tensor& out, int axis) {
  const std::vector<int64_t> list = checked_ids(op, ids, x.dim(axis));
  if (out.numel() == 0) return;
  const LoopPlan slice = LoopPlan::over(~(1u << axis), {&out, &x});
  const RowConverter copy_row = row_converter(x.dtype(), out.dtype());
  const int64_t to_stride = out.strides()[axis];
  const int64_t from_stride = x.strides()[axis];
  const auto count = static_cast<int64_t>(list.size());
  // The range of (id, element of the slice); a part of it may begin within a slice.
  parallel_for(
      count * slice.count, 2 * static_cast<int64_t>(out.nbytes()), [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t i = begin / slice.count;
          LoopCursor cursor(slice, begin % slice.count);
          const int64_t stop = std::min(end, (i + 1) * slice.count);
          const int64_t from = list[static_cast<size_t>(i)] * from_stride;
          for (int64_t n = 0; begin < stop; begin += n) {
            n = std::min(cursor.left(), stop - begin);
            copy_row(at_element(x.raw_data(), x.dtype(), from + cursor.offset(1)),
                     slice.inner_stride(1),
                     at_element(out.raw_data(), out.dtype(), i * to_stride + cursor.offset(0)),
                     slice.inner_stride(0), n);
            cursor.advance(n);
          }
        }
      });
}

void add_slices(const char* op, const Tensor& from, const Tensor& ids, Tensor& to, int axis) {
  const std::vector<int64_t> list = checked_ids(op, ids, to.dim(axis));
  if (from.numel() == 0) return;
  const LoopPlan slice = LoopPlan::over(~(1u << axis), {&to, &from});
  dispatch_types<float, double>(compute_dtype(to.dtype()), op, [&]<class C>() {
    const ChunkOperand<C> target(slice, 0, to);
    const ChunkOperand<C> source(slice, 1, from);
    // Threads split the slices, not the ids: an element gets its addends in the order of ids.
    parallel_for(
        slice.count, 3 * static_cast<int64_t>(from.nbytes()),
        [&](int64_t begin, int64_t end) {
          alignas(64) C to_buffer[kChunk];
          alignas(64) C from_buffer[kChunk];
          for (int64_t n = 0; begin < end; begin += n) {
            n = chunk_length(slice, begin, end);
            for (size_t i = 0; i < list.size(); ++i) {
              const int64_t shift = list[i] * to.strides()[axis];
              const C* addend = source.load(begin, n, from_buffer,
                                            static_cast<int64_t>(i) * from.strides()[axis]);
              const C* old = target.load(begin, n, to_buffer, shift);
              C* const sum = target.target(begin, n, to_buffer, shift);
#pragma GCC ivdep
              for (int64_t j = 0; j < n; ++j) sum[j] = old[j] + addend[j];
              target.store(begin, n, sum, to_buffer, shift);
            }
          }
        },
        16);
  });
}

}  // namespace tenon::kernels::cpu
