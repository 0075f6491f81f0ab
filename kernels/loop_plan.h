// How to walk N strided operands of one shape together: dimensions of size 1 are dropped, the rest
// sorted so that the first operand's memory is visited in order, and neighbours merged where every
// operand allows it. Dense operands of one layout (row-major or channels-last alike) become one
// row.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "tenon/core/shape.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

inline constexpr int kMaxOperands = 5;

struct LoopPlan {
  // Operand 0 leads the order of the dimensions.
  LoopPlan(const Shape& shape, std::span<const Strides* const> operand_strides);
  static LoopPlan of(std::initializer_list<const Tensor*> operands);
  // Over the axes whose bit is set in `axes` only; sizes are the first operand's.
  static LoopPlan over(uint32_t axes, std::initializer_list<const Tensor*> operands);
  // Of operands (N, C, …), with the number of the channel as one more, last operand.
  static LoopPlan with_channel(std::initializer_list<const Tensor*> operands);

  int64_t inner() const { return sizes[static_cast<size_t>(dims - 1)]; }
  int64_t inner_stride(int operand) const { return stride(operand, dims - 1); }
  int64_t stride(int operand, int dim) const {
    return strides[static_cast<size_t>(operand)][static_cast<size_t>(dim)];
  }
  // The operand's elements follow each other in the order of the walk.
  bool flat(int operand) const;
  // Every row has the operand's same elements.
  bool repeats(int operand) const;

  int dims = 1;                                                       // at least 1
  int operands = 0;                                                   //
  int64_t count = 0;                                                  // elements
  std::array<int64_t, kMaxDims> sizes{1};                             // outermost first
  std::array<std::array<int64_t, kMaxDims>, kMaxOperands> strides{};  // in elements
};

// A place in the walk.
class LoopCursor {
 public:
  LoopCursor(const LoopPlan& plan, int64_t begin);

  // Elements up to the end of the row.
  int64_t left() const { return plan_.inner() - index_[inner_]; }
  int64_t offset(int operand) const { return offsets_[static_cast<size_t>(operand)]; }
  // n <= left().
  void advance(int64_t n) {
    index_[inner_] += n;
    for (size_t k = 0; k < operands_; ++k) offsets_[k] += n * plan_.strides[k][inner_];
    if (index_[inner_] == plan_.sizes[inner_]) next_row();
  }

 private:
  void next_row();

  const LoopPlan& plan_;
  const size_t inner_;
  const size_t operands_;
  std::array<int64_t, kMaxDims> index_{};
  std::array<int64_t, kMaxOperands> offsets_{};
};

}  // namespace tenon::kernels
