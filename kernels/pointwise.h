// Slots of the pointwise kernels. Raw: outputs are allocated by the caller, nothing is recorded.
// Scalar math, forward and derivative, is in pointwise_math.h, once for all devices.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/pointwise_math.h"

namespace tenon::kernels {

// y = f(x), and dx = f'(x or y) dy (`accumulate`: dx += …). `saved` is what Op::saves says.
// All tensors of a call have one shape and one floating dtype; strides are free.
template <class Op>
struct Unary {
  static inline constinit KernelSlot<void(const Tensor& x, Tensor& y, const OpParams&)> forward{
      Op::name};
  static inline constinit KernelSlot<void(const Tensor& saved, const Tensor& dy, Tensor& dx,
                                          const OpParams&, bool accumulate)>
      backward{Op::name};
};

// y = f(a, b) with a and b already broadcast to y's shape (stride 0 where they repeat).
// backward: da and db of y's shape; either may be null when nobody needs it.
template <class Op>
struct Binary {
  static inline constinit KernelSlot<void(const Tensor& a, const Tensor& b, Tensor& y)> forward{
      Op::name};
  static inline constinit KernelSlot<void(const Tensor& a, const Tensor& b, const Tensor& dy,
                                          Tensor* da, Tensor* db)>
      backward{Op::name};
};

// y (bool) = f(a, b), any dtype, broadcast as above.
template <class Op>
struct Comparison {
  static inline constinit KernelSlot<void(const Tensor& a, const Tensor& b, Tensor& y)> forward{
      Op::name};
};

// y = condition (bool) ? a : b, all of y's shape.
inline constinit KernelSlot<void(const Tensor& condition, const Tensor& a, const Tensor& b,
                                 Tensor& y)>
    where{"where"};
// into += alpha * x; x may have another floating dtype; one shape, any strides.
inline constinit KernelSlot<void(const Tensor& x, Tensor& into, double alpha)> accumulate{
    "accumulate"};
// x = alpha * x.
inline constinit KernelSlot<void(Tensor& x, double alpha)> scale{"scale"};

template <class... Ops>
std::vector<const KernelSlotBase*> unary_slots(OpList<Ops...>) {
  return {&Unary<Ops>::forward..., &Unary<Ops>::backward...};
}
template <class... Ops>
std::vector<const KernelSlotBase*> binary_slots(OpList<Ops...>) {
  return {&Binary<Ops>::forward..., &Binary<Ops>::backward...};
}
template <class... Ops>
std::vector<const KernelSlotBase*> comparison_slots(OpList<Ops...>) {
  return {&Comparison<Ops>::forward...};
}
inline const KernelSlotBase* const kPointwiseSlots[] = {&where, &accumulate, &scale};

}  // namespace tenon::kernels
