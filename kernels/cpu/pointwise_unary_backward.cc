// dx = f'(x or y) dy on the CPU.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

template <class Op, class C>
void derivative(const Tensor& saved, const Tensor& dy, const Tensor& dx, ParamsOf<C> p,
                bool accumulate) {
  if (accumulate) {
    cpu::map_elements<C, C, C, C>(
        [p](int64_t n, C* out, const C* s, const C* grad, const C* old) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            out[i] = old[i] + Op::template backward<C>(s[i], grad[i], p);
          }
        },
        dx, saved, dy, dx);
  } else {
    cpu::map_elements<C, C, C>(
        [p](int64_t n, C* out, const C* s, const C* grad) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = Op::template backward<C>(s[i], grad[i], p);
        },
        dx, saved, dy);
  }
}

template <class Op>
void unary_backward(const Tensor& saved, const Tensor& dy, Tensor& dx, const OpParams& params,
                    bool accumulate) {
  // An op that saves nothing may get an undefined tensor.
  const Tensor& read = Op::saves == Saves::nothing ? dy : saved;
  dispatch_types<float, double>(compute_dtype(dx.dtype()), Op::name, [&]<class C>() {
    const ParamsOf<C> p{static_cast<C>(params.a), static_cast<C>(params.b)};
    derivative<Op, C>(read, dy, dx, p, accumulate);
  });
}

template <class... Ops>
bool set_all(OpList<Ops...>) {
  return (Unary<Ops>::backward.set(DeviceType::cpu, unary_backward<Ops>) && ...);
}

[[maybe_unused]] const bool registered = set_all(UnaryOps{});

}  // namespace
}  // namespace tenon::kernels
