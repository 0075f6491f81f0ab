// y = f(x) on the CPU.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

template <class Op>
void unary_forward(const Tensor& x, Tensor& y, const OpParams& params) {
  dispatch_types<float, double>(compute_dtype(y.dtype()), Op::name, [&]<class C>() {
    const ParamsOf<C> p{static_cast<C>(params.a), static_cast<C>(params.b)};
    cpu::map_elements<C, C>(
        [p](int64_t n, C* out, const C* in) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = Op::template forward<C>(in[i], p);
        },
        y, x);
  });
}

template <class... Ops>
bool set_all(OpList<Ops...>) {
  return (Unary<Ops>::forward.set(DeviceType::cpu, unary_forward<Ops>) && ...);
}

[[maybe_unused]] const bool registered = set_all(UnaryOps{});

}  // namespace
}  // namespace tenon::kernels
