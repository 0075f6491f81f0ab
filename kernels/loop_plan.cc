#include "tenon/kernels/loop_plan.h"

#include <algorithm>

namespace tenon::kernels {
namespace {

// Whether dimension `a` belongs outside `b`: decided by the first operand that tells them apart.
bool outside(std::span<const Strides* const> operands, int a, int b) {
  for (const Strides* strides : operands) {
    const int64_t stride_a = (*strides)[a];
    const int64_t stride_b = (*strides)[b];
    if (stride_a == stride_b || stride_a == 0 || stride_b == 0) continue;
    return stride_a > stride_b;
  }
  return a < b;
}

}  // namespace

LoopPlan::LoopPlan(const Shape& shape, std::span<const Strides* const> operand_strides)
    : operands(static_cast<int>(operand_strides.size())), count(shape.numel()) {
  std::array<int, kMaxDims> order{};
  int kept = 0;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    // Insertion keeps the row-major order where strides of 0 make `outside` undecided.
    int at = kept++;
    while (at > 0 && outside(operand_strides, axis, order[static_cast<size_t>(at - 1)])) {
      order[static_cast<size_t>(at)] = order[static_cast<size_t>(at - 1)];
      --at;
    }
    order[static_cast<size_t>(at)] = axis;
  }
  int last = -1;
  for (int i = 0; i < kept; ++i) {
    const int axis = order[static_cast<size_t>(i)];
    const int64_t size = shape[axis];
    const auto merges = [&](size_t k) {
      return strides[k][static_cast<size_t>(last)] == (*operand_strides[k])[axis] * size;
    };
    bool merged = last >= 0;
    for (size_t k = 0; merged && k < operand_strides.size(); ++k) merged = merges(k);
    if (!merged) sizes[static_cast<size_t>(++last)] = 1;
    sizes[static_cast<size_t>(last)] *= size;
    for (size_t k = 0; k < operand_strides.size(); ++k) {
      strides[k][static_cast<size_t>(last)] = (*operand_strides[k])[axis];
    }
  }
  dims = std::max(last + 1, 1);
  if (last < 0) {
    for (size_t k = 0; k < operand_strides.size(); ++k) strides[k][0] = 1;
  }
}

LoopPlan LoopPlan::of(std::initializer_list<const Tensor*> operands) {
  std::array<const Strides*, kMaxOperands> strides{};
  size_t count = 0;
  for (const Tensor* operand : operands) strides[count++] = &operand->strides();
  return LoopPlan((*operands.begin())->shape(), std::span(strides.data(), count));
}

LoopPlan LoopPlan::over(uint32_t axes, std::initializer_list<const Tensor*> operands) {
  std::array<Strides, kMaxOperands> strides;
  std::array<const Strides*, kMaxOperands> pointers{};
  Shape shape;
  size_t count = 0;
  for (const Tensor* operand : operands) {
    for (int axis = 0; axis < operand->ndim(); ++axis) {
      if ((axes >> axis & 1u) == 0) continue;
      strides[count].push_back(operand->strides()[axis]);
      if (count == 0) shape.push_back(operand->shape()[axis]);
    }
    pointers[count] = &strides[count];
    ++count;
  }
  return LoopPlan(shape, std::span(pointers.data(), count));
}

LoopPlan LoopPlan::with_channel(std::initializer_list<const Tensor*> tensors) {
  std::array<const Strides*, kMaxOperands> all{};
  size_t count = 0;
  for (const Tensor* tensor : tensors) all[count++] = &tensor->strides();
  const Shape& shape = (*tensors.begin())->shape();
  Strides channel;
  for (int axis = 0; axis < shape.size(); ++axis) channel.push_back(axis == 1 ? 1 : 0);
  all[count++] = &channel;
  return LoopPlan(shape, std::span(all.data(), count));
}

bool LoopPlan::flat(int operand) const {
  int64_t step = 1;
  for (int dim = dims - 1; dim >= 0; --dim) {
    if (stride(operand, dim) != step) return false;
    step *= sizes[static_cast<size_t>(dim)];
  }
  return true;
}

bool LoopPlan::repeats(int operand) const {
  for (int dim = 0; dim + 1 < dims; ++dim) {
    if (stride(operand, dim) != 0) return false;
  }
  return dims > 1 || inner_stride(operand) == 0;
}

LoopCursor::LoopCursor(const LoopPlan& plan, int64_t begin)
    : plan_(plan),
      inner_(static_cast<size_t>(plan.dims - 1)),
      operands_(static_cast<size_t>(plan.operands)) {
  for (size_t dim = inner_ + 1; dim-- > 0;) {
    index_[dim] = begin % plan.sizes[dim];
    begin /= plan.sizes[dim];
    for (size_t k = 0; k < operands_; ++k) offsets_[k] += index_[dim] * plan.strides[k][dim];
  }
}

void LoopCursor::next_row() {
  for (size_t dim = inner_;; --dim) {
    for (size_t k = 0; k < operands_; ++k) offsets_[k] -= index_[dim] * plan_.strides[k][dim];
    index_[dim] = 0;
    if (dim == 0) return;
    for (size_t k = 0; k < operands_; ++k) offsets_[k] += plan_.strides[k][dim - 1];
    if (++index_[dim - 1] < plan_.sizes[dim - 1]) return;
  }
}

}  // namespace tenon::kernels
