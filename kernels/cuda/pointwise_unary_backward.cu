// dx = f'(x or y) dy on the GPU.
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels::cuda {
namespace {

template <class Op, class C>
struct Backward {
  using MayLackInputs = void;
  ParamsOf<C> p;
  bool accumulate;
  __device__ C operator()(C saved, C dy, C old) const {
    const C slope = Op::template backward<C>(saved, dy, p);
    return accumulate ? old + slope : slope;
  }
};

template <class Op>
void unary_backward(const Tensor& saved, const Tensor& dy, Tensor& dx, const OpParams& params,
                    bool accumulate) {
  // An op that saves nothing may get an undefined tensor.
  const Tensor nothing;
  const Tensor& read = Op::saves == Saves::nothing ? nothing : saved;
  if (read.defined()) check_same_dtype(Op::name, read, dx);
  check_same_dtype(Op::name, dy, dx);
  dispatch_floating(dx.dtype(), Op::name, [&]<class T>() {
    using C = Compute<T>;
    const Backward<Op, C> f{{static_cast<C>(params.a), static_cast<C>(params.b)}, accumulate};
    map_elements<T, T, T, T>(Op::name, f, dx, read, dy, accumulate ? dx : nothing);
  });
}

template <class... Ops>
bool set_all(OpList<Ops...>) {
  return (Unary<Ops>::backward.set(DeviceType::cuda, unary_backward<Ops>) && ...);
}

[[maybe_unused]] const bool registered = set_all(UnaryOps{});

}  // namespace
}  // namespace tenon::kernels::cuda
