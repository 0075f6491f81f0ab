// max and min with the first index, and the scatter of their gradients.
#include <algorithm>
#include <array>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;

constexpr int64_t kColumns = 256;  // results found side by side

template <bool largest, class C>
bool better(C candidate, C best) {
  // A NaN beats every number, and the first one stays.
  const bool wins = largest ? candidate > best : candidate < best;
  return wins || (candidate != candidate && best == best);
}

// The results of `n` neighbouring lines.
template <bool largest, class C>
void extreme_columns(const ChunkOperand<C>& x, int64_t begin, int64_t n, int64_t length,
                     int64_t stride, C* best, int64_t* index) {
  alignas(64) C buffer[kColumns];
  std::copy_n(x.load(begin, n, buffer), n, best);
  std::fill_n(index, n, 0);
  for (int64_t at = 1; at < length; ++at) {
    const C* values = x.load(begin, n, buffer, at * stride);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const bool wins = better<largest>(values[i], best[i]);
      best[i] = wins ? values[i] : best[i];
      index[i] = wins ? at : index[i];
    }
  }
}

// The result of one line. Lane k looks at every kLanes-th element from k on, and all of them at the
// first one; among equal results the lowest index wins.
template <bool largest, class C>
void extreme_row(const ChunkOperand<C>& x, int64_t length, int64_t shift, C* best, int64_t* index) {
  constexpr size_t kLanes = 16;
  alignas(64) C buffer[cpu::kChunk];
  std::array<C, kLanes> lane_best;
  std::array<int64_t, kLanes> lane_index{};
  lane_best.fill(*x.load(0, 1, buffer, shift));
  for (int64_t at = 0; at < length; at += cpu::kChunk) {
    const int64_t n = std::min(cpu::kChunk, length - at);
    const C* values = x.load(at, n, buffer, shift);
    const auto look = [&](int64_t i, size_t lane) {
      const bool wins = better<largest>(values[i], lane_best[lane]);
      lane_best[lane] = wins ? values[i] : lane_best[lane];
      lane_index[lane] = wins ? at + i : lane_index[lane];
    };
    int64_t i = 0;
    for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) look(i + static_cast<int64_t>(lane), lane);
    }
    for (size_t lane = 0; i < n; ++i, ++lane) look(i, lane);
  }
  *best = lane_best[0];
  *index = lane_index[0];
  for (size_t lane = 1; lane < kLanes; ++lane) {
    const bool equal = !better<largest>(*best, lane_best[lane]);
    if (better<largest>(lane_best[lane], *best) || (equal && lane_index[lane] < *index)) {
      *best = lane_best[lane];
      *index = lane_index[lane];
    }
  }
}

template <bool largest, class C>
void extreme(const Tensor& x, Tensor& values, Tensor& indices, int axis) {
  const LoopPlan kept = LoopPlan::over(~(1u << axis), {&x, &values, &indices});
  const LoopPlan along = LoopPlan::over(1u << axis, {&x});
  const int64_t length = x.dim(axis);
  const bool close = x.strides()[axis] <= kept.inner_stride(0) && length >= 32;
  const bool by_rows = kept.count < 8 || close;
  const ChunkOperand<C> operand(by_rows ? along : kept, 0, x);
  const cpu::RowConverter store = cpu::row_converter(dtype_of<C>, values.dtype());
  int64_t* const index_data = indices.data<int64_t>();
  parallel_for(
      kept.count, static_cast<int64_t>(x.nbytes()),
      [&](int64_t begin, int64_t end) {
        alignas(64) C best[kColumns];
        alignas(64) int64_t index[kColumns];
        LoopCursor cursor(kept, begin);
        for (int64_t n = 0; begin < end; begin += n) {
          n = by_rows ? 1 : std::min(kColumns, end - begin);
          if (by_rows) {
            extreme_row<largest>(operand, length, cursor.offset(0), best, index);
          } else {
            extreme_columns<largest>(operand, begin, n, length, x.strides()[axis], best, index);
          }
          for (int64_t i = 0; i < n; ++i, cursor.advance(1)) {
            store(best + i, 1, cpu::at_element(values.raw_data(), values.dtype(), cursor.offset(1)),
                  1, 1);
            index_data[cursor.offset(2)] = index[i];
          }
        }
      },
      by_rows ? 1 : kColumns);
}

template <bool largest>
void extreme_cpu(const Tensor& x, Tensor& values, Tensor& indices, int axis) {
  constexpr const char* op = largest ? "max" : "min";
  if (values.numel() == 0) return;
  TENON_CHECK(x.dim(axis) > 0, op, "nothing to choose from: given shape ", x.shape(), ", axis ",
              axis);
  const DType type = is_floating(x.dtype()) ? compute_dtype(x.dtype()) : DType::i64;
  dispatch_types<float, double, int64_t>(
      type, op, [&]<class C>() { extreme<largest, C>(x, values, indices, axis); });
}

void scatter_add_cpu(const Tensor& dy, const Tensor& indices, Tensor& dx, int axis) {
  if (dy.numel() == 0) return;
  const LoopPlan lines = LoopPlan::over(~(1u << axis), {&dy, &indices, &dx});
  const int64_t stride = dx.strides()[axis];
  const int64_t length = dx.dim(axis);
  const int64_t* const index_data = indices.data<int64_t>();
  dispatch_floating(dx.dtype(), "scatter_add", [&]<class T>() {
    using C = Compute<T>;
    const T* const from = dy.data<T>();
    T* const to = dx.data<T>();
    parallel_for(lines.count, lines.count * 64, [&](int64_t begin, int64_t end) {
      LoopCursor cursor(lines, begin);
      for (; begin < end; ++begin, cursor.advance(1)) {
        const int64_t index = index_data[cursor.offset(1)];
        TENON_CHECK(index >= 0 && index < length, "scatter_add", "index out of range: given ",
                    index, ", wanted 0 to ", length - 1);
        T& element = to[cursor.offset(2) + index * stride];
        element = static_cast<T>(static_cast<C>(element) + static_cast<C>(from[cursor.offset(0)]));
      }
    });
  });
}

[[maybe_unused]] const bool registered = max.set(DeviceType::cpu, extreme_cpu<true>) &&
                                         min.set(DeviceType::cpu, extreme_cpu<false>) &&
                                         scatter_add.set(DeviceType::cpu, scatter_add_cpu);

}  // namespace
}  // namespace tenon::kernels
