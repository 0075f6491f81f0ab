// y = f(x) on the GPU.
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels::cuda {
namespace {

template <class Op, class C>
struct Forward {
  ParamsOf<C> p;
  __device__ C operator()(C x) const { return Op::template forward<C>(x, p); }
};

template <class Op>
void unary_forward(const Tensor& x, Tensor& y, const OpParams& params) {
  check_same_dtype(Op::name, x, y);
  dispatch_floating(y.dtype(), Op::name, [&]<class T>() {
    using C = Compute<T>;
    const Forward<Op, C> f{{static_cast<C>(params.a), static_cast<C>(params.b)}};
    map_elements<T, T>(Op::name, f, y, x);
  });
}

template <class... Ops>
bool set_all(OpList<Ops...>) {
  return (Unary<Ops>::forward.set(DeviceType::cuda, unary_forward<Ops>) && ...);
}

[[maybe_unused]] const bool registered = set_all(UnaryOps{});

}  // namespace
}  // namespace tenon::kernels::cuda
