// where, accumulate and scale on the GPU.
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels::cuda {
namespace {

struct Choose {
  template <class Bits>
  __device__ Bits operator()(bool chosen, Bits a, Bits b) const {
    return chosen ? a : b;
  }
};

void where_cuda(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  check_same_dtype("where", a, y);
  check_same_dtype("where", b, y);
  with_bits(size_of(y.dtype()), [&]<class Bits>() {
    map_elements<Bits, bool, Bits, Bits>("where", Choose(), y, condition, a, b);
  });
}

template <class C>
struct Accumulate {
  C factor;
  template <class X>
  __device__ C operator()(C old, X addend) const {
    return old + factor * static_cast<C>(addend);
  }
};

void accumulate_cuda(const Tensor& x, Tensor& into, double alpha) {
  dispatch_floating(into.dtype(), "accumulate", [&]<class T>() {
    using C = Compute<T>;
    dispatch_floating(x.dtype(), "accumulate", [&]<class X>() {
      map_elements<T, T, X>("accumulate", Accumulate<C>{static_cast<C>(alpha)}, into, into, x);
    });
  });
}

template <class C>
struct Scale {
  C factor;
  __device__ C operator()(C x) const { return factor * x; }
};

void scale_cuda(Tensor& x, double alpha) {
  dispatch_floating(x.dtype(), "scale", [&]<class T>() {
    using C = Compute<T>;
    map_elements<T, T>("scale", Scale<C>{static_cast<C>(alpha)}, x, x);
  });
}

[[maybe_unused]] const bool registered = where.set(DeviceType::cuda, where_cuda) &&
                                         accumulate.set(DeviceType::cuda, accumulate_cuda) &&
                                         scale.set(DeviceType::cuda, scale_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
