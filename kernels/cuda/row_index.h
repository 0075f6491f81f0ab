// Lists of ids on the GPU, and how threads share the slices that ids name: what taking and adding
// slices have in common.
#pragma once

#include "tenon/core/cuda/fault.h"
#include "tenon/kernels/cuda/strided.h"

namespace tenon::kernels::cuda {

struct IdList {
  IdList(const char* op, const Tensor& ids) : count(ids.numel()) {
    if (count == 0) return;
    TENON_CHECK(ids.ndim() == 1, op, "ids must be a list: given ", describe(ids));
    dispatch_types<int64_t, int32_t>(ids.dtype(), op,
                                     [&]<class T>() { wide = sizeof(T) == sizeof(int64_t); });
    data = ids.raw_data();
    stride = ids.strides()[0];
  }
  __device__ int64_t operator[](int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i * stride]
                : static_cast<const int32_t*>(data)[i * stride];
  }

  const void* data = nullptr;
  int64_t count;
  int64_t stride = 0;
  bool wide = false;
};

// `count` slices along `axis` of two tensors that differ in shape along it only. A thread takes a
// group of one slice; neighbouring threads take neighbouring groups, or neighbouring slices where
// those lie closer in memory.
class Slices {
 public:
  Slices(const Tensor& to, const Tensor& from, int axis, int vector, int64_t count)
      : groups_(groups(to, from, axis, vector)), count_(count) {
    const LoopPlan slice = LoopPlan::over(~(1u << axis), {&to, &from});
    across_ = slice.count > 1 && slice.inner_stride(0) > to.strides()[axis];
    inner_ = across_ ? count : groups_.count();
    by_inner_ = Divisor(inner_);
  }

  TENON_HD int64_t work() const { return count_ * groups_.count(); }
  struct Share {
    int64_t slice, group;
  };
  __device__ Share share(int64_t unit) const {
    if (inner_ == 1) return across_ ? Share{0, unit} : Share{unit, 0};
    const int64_t outer = work() < int64_t{1} << 31 ? by_inner_.divide(static_cast<uint32_t>(unit))
                                                    : by_inner_.divide(unit);
    const int64_t inner = unit - outer * inner_;
    return across_ ? Share{inner, outer} : Share{outer, inner};
  }
  __device__ const Groups<2>& groups() const { return groups_; }

 private:
  static Groups<2> groups(const Tensor& to, const Tensor& from, int axis, int vector) {
    Groups<2> result(LoopPlan::over(~(1u << axis), {&to, &from}), vector,
                     {data_or_null<void>(to), data_or_null<void>(from)},
                     {size_of(to.dtype()), size_of(from.dtype())});
    result.shift_by(0, to.strides()[axis], vector);
    result.shift_by(1, from.strides()[axis], vector);
    return result;
  }

  Groups<2> groups_;
  int64_t count_;
  bool across_ = false;
  int64_t inner_ = 1;
  Divisor by_inner_;
};

}  // namespace tenon::kernels::cuda
