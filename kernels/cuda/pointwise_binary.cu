// Binary ops and comparisons on the GPU.
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels::cuda {
namespace {

template <class Op>
struct BinaryForward {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return static_cast<C>(Op::template forward<C>(a, b));
  }
};

template <class Op>
void binary_forward(const Tensor& a, const Tensor& b, Tensor& y) {
  check_same_dtype(Op::name, a, y);
  check_same_dtype(Op::name, b, y);
  const auto run = [&]<class T>() {
    map_elements<T, T, T>(Op::name, BinaryForward<Op>(), y, a, b);
  };
  if constexpr (kFloatingOnly<Op>) {
    dispatch_floating(y.dtype(), Op::name, run);
  } else {
    dispatch_numeric(y.dtype(), Op::name, run);
  }
}

// Which partial derivative.
enum class Side { a, b };

template <class Op, Side side>
struct Derivative {
  template <class C>
  __device__ C operator()(C a, C b, C dy) const {
    return side == Side::a ? Op::template backward_a<C>(a, b, dy)
                           : Op::template backward_b<C>(a, b, dy);
  }
  // Of an op whose derivatives do not read its inputs.
  template <class C>
  __device__ C operator()(C dy) const {
    return (*this)(C(0), C(0), dy);
  }
};

template <class Op, Side side>
void binary_derivative(const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& out) {
  check_same_dtype(Op::name, dy, out);
  dispatch_floating(out.dtype(), Op::name, [&]<class T>() {
    const Derivative<Op, side> f;
    if constexpr (Op::uses_inputs) {
      check_same_dtype(Op::name, a, out);
      check_same_dtype(Op::name, b, out);
      map_elements<T, T, T, T>(Op::name, f, out, a, b, dy);
    } else {
      map_elements<T, T>(Op::name, f, out, dy);
    }
  });
}

template <class Op>
void binary_backward(const Tensor& a, const Tensor& b, const Tensor& dy, Tensor* da, Tensor* db) {
  if (da != nullptr) binary_derivative<Op, Side::a>(a, b, dy, *da);
  if (db != nullptr) binary_derivative<Op, Side::b>(a, b, dy, *db);
}

template <class Op>
struct Compare {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return Op::template forward<C>(a, b);
  }
};

template <class Op>
void comparison(const Tensor& a, const Tensor& b, Tensor& y) {
  check_same_dtype(Op::name, a, b);
  const DType type = a.dtype() == DType::boolean ? DType::u8 : a.dtype();
  dispatch_numeric(type, Op::name,
                   [&]<class T>() { map_elements<bool, T, T>(Op::name, Compare<Op>(), y, a, b); });
}

template <class... Ops>
bool set_binary(OpList<Ops...>) {
  return ((Binary<Ops>::forward.set(DeviceType::cuda, binary_forward<Ops>) &&
           Binary<Ops>::backward.set(DeviceType::cuda, binary_backward<Ops>)) &&
          ...);
}
template <class... Ops>
bool set_comparisons(OpList<Ops...>) {
  return (Comparison<Ops>::forward.set(DeviceType::cuda, comparison<Ops>) && ...);
}

[[maybe_unused]] const bool registered =
    set_binary(BinaryOps{}) && set_comparisons(ComparisonOps{});

}  // namespace
}  // namespace tenon::kernels::cuda
