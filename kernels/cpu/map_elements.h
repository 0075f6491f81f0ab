// The driver of the elementwise kernels. An op is one dense loop over plain arrays of the type it
// computes in; the driver cuts the tensors into chunks that fit the L1 cache and brings operands of
// any dtype and layout into that form (in place where they have it already). So layouts, 16-bit
// formats and broadcasting cost no code per op, and an element's value cannot depend on its layout.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tenon/core/parallel.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/cpu/loop_plan.h"

namespace tenon::kernels::cpu {

inline constexpr int64_t kChunk = 1024;      // elements
inline constexpr int64_t kShortRow = 128;    // rows below this are packed together
inline constexpr int64_t kThreadAlign = 64;  // elements; threads do not share cache lines

// One operand as seen by the chunks of one thread: C is the type the op computes in.
template <class C>
class ChunkOperand {
 public:
  ChunkOperand(const LoopPlan& plan, int operand, const Tensor& tensor)
      : plan_(plan),
        operand_(operand),
        data_(tensor.raw_data()),
        dtype_(tensor.dtype()),
        same_type_(dtype_ == dtype_of<C>),
        direct_(same_type_ && plan.flat(operand)),
        load_(row_converter(dtype_, dtype_of<C>)),
        store_(row_converter(dtype_of<C>, dtype_)) {}

  // Elements [begin, begin + n) of the walk as a dense array; `buffer` holds them if need be.
  // `shift` moves the whole operand by as many elements.
  const C* load(int64_t begin, int64_t n, C* buffer, int64_t shift = 0) const {
    if (direct_) return static_cast<const C*>(data_) + shift + begin;
    LoopCursor cursor(plan_, begin);
    if (same_type_ && plan_.inner_stride(operand_) == 1 && n <= cursor.left()) {
      return static_cast<const C*>(data_) + shift + cursor.offset(operand_);
    }
    each_row(cursor, n, shift, [&](void* row, int64_t stride, int64_t done, int64_t length) {
      load_(row, stride, buffer + done, 1, length);
    });
    return buffer;
  }
  // Where to write the same elements; `store` puts them in place afterwards.
  C* target(int64_t begin, int64_t n, C* buffer) const {
    if (direct_) return static_cast<C*>(data_) + begin;
    if (same_type_ && plan_.inner_stride(operand_) == 1) {
      LoopCursor cursor(plan_, begin);
      if (n <= cursor.left()) return static_cast<C*>(data_) + cursor.offset(operand_);
    }
    return buffer;
  }
  void store(int64_t begin, int64_t n, const C* values, const C* buffer) const {
    if (values != buffer) return;
    LoopCursor cursor(plan_, begin);
    each_row(cursor, n, 0, [&](void* row, int64_t stride, int64_t done, int64_t length) {
      store_(buffer + done, 1, row, stride, length);
    });
  }

 private:
  template <class Row>
  void each_row(LoopCursor& cursor, int64_t n, int64_t shift, Row&& row) const {
    for (int64_t done = 0; done < n;) {
      const int64_t length = std::min(n - done, cursor.left());
      row(at_element(data_, dtype_, shift + cursor.offset(operand_)), plan_.inner_stride(operand_),
          done, length);
      cursor.advance(length);
      done += length;
    }
  }

  const LoopPlan& plan_;
  const int operand_;
  void* const data_;
  const DType dtype_;
  const bool same_type_;
  const bool direct_;
  const RowConverter load_;
  const RowConverter store_;
};

// The length of the chunk at `begin`: within a row, or over several where rows are short.
inline int64_t chunk_length(const LoopPlan& plan, int64_t begin, int64_t end) {
  int64_t n = std::min(kChunk, end - begin);
  if (plan.inner() >= kShortRow) n = std::min(n, plan.inner() - begin % plan.inner());
  return n;
}

// out = op(in…) element by element. `dense` is void(int64_t n, Out* out, const In*… in) over dense
// arrays, with Out and In the compute types of the operands; out may be one of the inputs.
template <class Out, class... In, class Dense, class... Tensors>
void map_elements(const Dense& dense, const Tensor& out, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  if (out.numel() == 0) return;
  const LoopPlan plan = LoopPlan::of({&out, &in...});
  const int64_t bytes = static_cast<int64_t>((size_of(out.dtype()) + ... + size_of(in.dtype())));
  parallel_for(
      plan.count, plan.count * bytes,
      [&](int64_t begin, int64_t end) {
        const ChunkOperand<Out> result(plan, 0, out);
        const auto inputs = [&]<size_t... I>(std::index_sequence<I...>) {
          return std::tuple<ChunkOperand<In>...>{
              ChunkOperand<In>(plan, static_cast<int>(I + 1), in)...};
        }
        (std::index_sequence_for<In...>{});
        alignas(64) Out out_buffer[kChunk];
        alignas(64) std::tuple<std::array<In, kChunk>...> buffers;
        for (int64_t n = 0; begin < end; begin += n) {
          n = chunk_length(plan, begin, end);
          Out* const target = result.target(begin, n, out_buffer);
          [&]<size_t... I>(std::index_sequence<I...>) {
            dense(n, target, std::get<I>(inputs).load(begin, n, std::get<I>(buffers).data())...);
          }
          (std::index_sequence_for<In...>{});
          result.store(begin, n, target, out_buffer);
        }
      },
      kThreadAlign);
}

}  // namespace tenon::kernels::cpu
