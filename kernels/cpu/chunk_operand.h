// An operand of a kernel, chunk by chunk, as a dense array of the type that the kernel computes in:
// its own memory where that has this form already, else a buffer of the caller.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tenon/core/dtype.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/loop_plan.h"

namespace tenon::kernels::cpu {

inline constexpr int64_t kChunk = 1024;    // elements
inline constexpr int64_t kShortRow = 128;  // rows below this are packed together

// The length of the chunk at `begin`: within a row, or a number of whole rows where they are short.
inline int64_t chunk_length(const LoopPlan& plan, int64_t begin, int64_t end) {
  const int64_t inner = plan.inner();
  const int64_t most =
      inner < kShortRow ? kChunk - kChunk % inner : std::min(kChunk, inner - begin % inner);
  return std::min(most, end - begin);
}

// Operand number `operand` of `plan`, which must outlive this.
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
  // The same for elements within one row of the walk, the first of them `offset` elements from the
  // operand's.
  const C* load_row(int64_t offset, int64_t n, C* buffer) const {
    const int64_t stride = plan_.inner_stride(operand_);
    if (same_type_ && stride == 1) return static_cast<const C*>(data_) + offset;
    load_(at_element(data_, dtype_, offset), stride, buffer, 1, n);
    return buffer;
  }
  // Where to write the same elements; `store` then puts them in place if they went to `buffer`.
  C* target(int64_t begin, int64_t n, C* buffer, int64_t shift = 0) const {
    if (direct_) return static_cast<C*>(data_) + shift + begin;
    if (same_type_ && plan_.inner_stride(operand_) == 1) {
      LoopCursor cursor(plan_, begin);
      if (n <= cursor.left()) return static_cast<C*>(data_) + shift + cursor.offset(operand_);
    }
    return buffer;
  }
  void store(int64_t begin, int64_t n, const C* values, const C* buffer, int64_t shift = 0) const {
    if (values != buffer) return;
    LoopCursor cursor(plan_, begin);
    each_row(cursor, n, shift, [&](void* row, int64_t stride, int64_t done, int64_t length) {
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

}  // namespace tenon::kernels::cpu
