// Binary ops, comparisons, where, accumulate and scale on the CPU.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

using cpu::map_elements;

template <class Op>
void binary_forward(const Tensor& a, const Tensor& b, Tensor& y) {
  const auto run = [&]<class C>() {
    map_elements<C, C, C>(
        [](int64_t n, C* out, const C* left, const C* right) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            out[i] = static_cast<C>(Op::template forward<C>(left[i], right[i]));
          }
        },
        y, a, b);
  };
  if constexpr (kFloatingOnly<Op>) {
    dispatch_types<float, double>(compute_dtype(y.dtype()), Op::name, run);
  } else {
    dispatch_types<float, double, int64_t, int32_t, uint8_t>(compute_dtype(y.dtype()), Op::name,
                                                             run);
  }
}

// Which partial derivative.
enum class Side { a, b };

template <class Op, Side side>
void binary_derivative(const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& out) {
  dispatch_types<float, double>(compute_dtype(dy.dtype()), Op::name, [&]<class C>() {
    map_elements<C, C, C, C>(
        [](int64_t n, C* dx, const C* left, const C* right, const C* grad) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            dx[i] = side == Side::a ? Op::template backward_a<C>(left[i], right[i], grad[i])
                                    : Op::template backward_b<C>(left[i], right[i], grad[i]);
          }
        },
        out, a, b, dy);
  });
}

template <class Op>
void binary_backward(const Tensor& a, const Tensor& b, const Tensor& dy, Tensor* da, Tensor* db) {
  // Ops whose derivatives do not read their inputs may get undefined ones.
  const Tensor& left = Op::uses_inputs ? a : dy;
  const Tensor& right = Op::uses_inputs ? b : dy;
  if (da != nullptr) binary_derivative<Op, Side::a>(left, right, dy, *da);
  if (db != nullptr) binary_derivative<Op, Side::b>(left, right, dy, *db);
}

template <class Op>
void comparison(const Tensor& a, const Tensor& b, Tensor& y) {
  const DType type = a.dtype() == DType::boolean ? DType::u8 : compute_dtype(a.dtype());
  dispatch_types<float, double, int64_t, int32_t, uint8_t>(type, Op::name, [&]<class C>() {
    map_elements<bool, C, C>(
        [](int64_t n, bool* out, const C* left, const C* right) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = Op::template forward<C>(left[i], right[i]);
        },
        y, a, b);
  });
}

void where_cpu(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  const DType type = y.dtype() == DType::boolean ? DType::u8 : compute_dtype(y.dtype());
  dispatch_types<float, double, int64_t, int32_t, uint8_t>(type, "where", [&]<class C>() {
    map_elements<C, bool, C, C>(
        [](int64_t n, C* out, const bool* chosen, const C* left, const C* right) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = chosen[i] ? left[i] : right[i];
        },
        y, condition, a, b);
  });
}

void accumulate_cpu(const Tensor& x, Tensor& into, double alpha) {
  dispatch_types<float, double>(compute_dtype(into.dtype()), "accumulate", [&]<class C>() {
    const C factor = static_cast<C>(alpha);
    map_elements<C, C, C>(
        [factor](int64_t n, C* out, const C* old, const C* addend) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = old[i] + factor * addend[i];
        },
        into, into, x);
  });
}

void scale_cpu(Tensor& x, double alpha) {
  dispatch_types<float, double>(compute_dtype(x.dtype()), "scale", [&]<class C>() {
    const C factor = static_cast<C>(alpha);
    map_elements<C, C>(
        [factor](int64_t n, C* out, const C* old) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = factor * old[i];
        },
        x, x);
  });
}

template <class... Ops>
bool set_binary(OpList<Ops...>) {
  return ((Binary<Ops>::forward.set(DeviceType::cpu, binary_forward<Ops>) &&
           Binary<Ops>::backward.set(DeviceType::cpu, binary_backward<Ops>)) &&
          ...);
}
template <class... Ops>
bool set_comparisons(OpList<Ops...>) {
  return (Comparison<Ops>::forward.set(DeviceType::cpu, comparison<Ops>) && ...);
}

[[maybe_unused]] const bool registered =
    set_binary(BinaryOps{}) && set_comparisons(ComparisonOps{}) &&
    where.set(DeviceType::cpu, where_cpu) && accumulate.set(DeviceType::cpu, accumulate_cpu) &&
    scale.set(DeviceType::cpu, scale_cpu);

}  // namespace
}  // namespace tenon::kernels
