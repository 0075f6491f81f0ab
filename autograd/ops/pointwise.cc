#include "tenon/autograd/ops/pointwise.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

using namespace kernels;
using detail::add_reduced;
using detail::raw_expand;

template <class Op>
Tensor unary(const Tensor& x, OpParams params = {}) {
  detail::check_floating(Op::name, x);
  const DeviceType device = x.device().type;
  Tensor y = empty_like(x);
  Unary<Op>::forward(device, x, y, params);
  if (!needs_grad({x})) return y;
  SavedTensor saved;
  if constexpr (Op::saves == Saves::input) saved = SavedTensor(x, Op::name, "input");
  if constexpr (Op::saves == Saves::output) saved = SavedTensor(y, Op::name, "output");
  return record(Op::name, y, {x}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor kept = Op::saves == Saves::nothing ? grad : saved.unpack();
    into[0].write([&](Tensor& dx, bool accumulate) {
      Unary<Op>::backward(device, kept, grad, dx, params, accumulate);
    });
  });
}

// The result of a broadcast: laid out like an operand that has its shape, if there is one.
Tensor empty_broadcast(const Shape& shape, const Tensor& a, const Tensor& b, DType dtype) {
  for (const Tensor* operand : {&a, &b}) {
    if (operand->shape() == shape && operand->is_dense() && !operand->is_contiguous()) {
      return empty(shape, {dtype, a.device()}).as_strided(shape, operand->strides());
    }
  }
  return empty(shape, {dtype, a.device()});
}

template <class Op>
Tensor binary(const Tensor& a, const Tensor& b) {
  check_same_device(Op::name, a, b);
  check_same_dtype(Op::name, a, b);
  const Shape shape = broadcast_shapes(Op::name, a.shape(), b.shape());
  const DeviceType device = a.device().type;
  Tensor y = empty_broadcast(shape, a, b, a.dtype());
  Binary<Op>::forward(device, raw_expand(a, shape), raw_expand(b, shape), y);
  if (!needs_grad({a, b})) return y;
  if constexpr (!Op::uses_inputs) {
    constexpr bool negative = std::is_same_v<Op, Sub>;
    const Shape shape_a = a.shape(), shape_b = b.shape();
    return record(Op::name, y, {a, b}, [=](const Tensor& grad, GradSinks& into) {
      if (into[0].needed()) add_reduced(into[0], grad, shape_a);
      if (!into[1].needed()) return;
      if constexpr (negative) {
        Tensor opposite = empty_like(grad);
        Unary<Negate>::forward(device, grad, opposite, {});
        add_reduced(into[1], opposite, shape_b);
      } else {
        add_reduced(into[1], grad, shape_b);
      }
    });
  } else {
    const SavedTensor saved_a(a, Op::name, "left operand"), saved_b(b, Op::name, "right operand");
    return record(Op::name, y, {a, b}, [=](const Tensor& grad, GradSinks& into) {
      const Tensor left = saved_a.unpack(), right = saved_b.unpack();
      const bool need_a = into[0].needed(), need_b = into[1].needed();
      Tensor da = need_a ? empty_like(grad) : Tensor(), db = need_b ? empty_like(grad) : Tensor();
      Binary<Op>::backward(device, raw_expand(left, shape), raw_expand(right, shape), grad,
                           need_a ? &da : nullptr, need_b ? &db : nullptr);
      if (need_a) add_reduced(into[0], da, left.shape());
      if (need_b) add_reduced(into[1], db, right.shape());
    });
  }
}

template <class Op>
Tensor compare(const Tensor& a, const Tensor& b) {
  check_same_device(Op::name, a, b);
  check_same_dtype(Op::name, a, b);
  const Shape shape = broadcast_shapes(Op::name, a.shape(), b.shape());
  Tensor y = empty_broadcast(shape, a, b, DType::boolean);
  Comparison<Op>::forward(a.device().type, raw_expand(a, shape), raw_expand(b, shape), y);
  return y;
}

}  // namespace

Tensor neg(const Tensor& x) { return unary<Negate>(x); }
Tensor affine(const Tensor& x, double scale, double shift) {
  return unary<Affine>(x, {scale, shift});
}
Tensor exp(const Tensor& x) { return unary<Exp>(x); }
Tensor log(const Tensor& x) { return unary<Log>(x); }
Tensor sqrt(const Tensor& x) { return unary<Sqrt>(x); }
Tensor rsqrt(const Tensor& x) { return unary<Rsqrt>(x); }
Tensor square(const Tensor& x) { return unary<Square>(x); }
Tensor reciprocal(const Tensor& x) { return unary<Reciprocal>(x); }
Tensor abs(const Tensor& x) { return unary<Abs>(x); }
Tensor sin(const Tensor& x) { return unary<Sin>(x); }
Tensor cos(const Tensor& x) { return unary<Cos>(x); }
Tensor tanh(const Tensor& x) { return unary<Tanh>(x); }
Tensor sigmoid(const Tensor& x) { return unary<Sigmoid>(x); }
Tensor erf(const Tensor& x) { return unary<Erf>(x); }
Tensor relu(const Tensor& x) { return unary<Relu>(x); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary<LeakyRelu>(x, {slope, 0}); }
Tensor gelu(const Tensor& x) { return unary<Gelu>(x); }
Tensor gelu_tanh(const Tensor& x) { return unary<GeluTanh>(x); }
Tensor silu(const Tensor& x) { return unary<Silu>(x); }

Tensor clamp(const Tensor& x, double low, double high) {
  TENON_CHECK(low <= high, "clamp", "empty range: given [", low, ", ", high, "]");
  return unary<Clamp>(x, {low, high});
}

Tensor pow(const Tensor& x, double exponent) {
  if (exponent == 1) return affine(x, 1, 0);
  if (exponent == 2) return square(x);
  if (exponent == -1) return reciprocal(x);
  if (exponent == 0.5) return sqrt(x);
  return unary<PowScalar>(x, {exponent, 0});
}

Tensor add(const Tensor& a, const Tensor& b) { return binary<Add>(a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary<Sub>(a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary<Mul>(a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary<Div>(a, b); }
Tensor silu_mul(const Tensor& a, const Tensor& b) { return binary<SiluMul>(a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary<Maximum>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary<Minimum>(a, b); }

Tensor eq(const Tensor& a, const Tensor& b) { return compare<Equal>(a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare<NotEqual>(a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare<Less>(a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare<LessEqual>(a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare<Greater>(a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare<GreaterEqual>(a, b); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_same_device("where", a, b);
  check_same_device("where", condition, a);
  check_same_dtype("where", a, b);
  TENON_CHECK(condition.dtype() == DType::boolean, "where", "wrong dtype of the condition: given ",
              describe(condition), ", wanted bool");
  const Shape shape =
      broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  const DeviceType device = a.device().type;
  Tensor y = empty(shape, {a.dtype(), a.device()});
  kernels::where(device, raw_expand(condition, shape), raw_expand(a, shape), raw_expand(b, shape),
                 y);
  if (!needs_grad({a, b})) return y;
  const SavedTensor saved(condition, "where", "condition");
  const Shape shape_a = a.shape(), shape_b = b.shape();
  return record("where", y, {a, b}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor chosen = raw_expand(saved.unpack(), shape);
    const Tensor zero = raw_expand(zeros({}, {grad.dtype(), grad.device()}), shape);
    Tensor part = empty(shape, {grad.dtype(), grad.device()});
    if (into[0].needed()) {
      kernels::where(device, chosen, grad, zero, part);
      add_reduced(into[0], part, shape_a);
    }
    if (into[1].needed()) {
      Tensor other = empty(shape, {grad.dtype(), grad.device()});
      kernels::where(device, chosen, zero, grad, other);
      add_reduced(into[1], other, shape_b);
    }
  });
}

Tensor to(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  const Device from = x.device();
  const Tensor y = copied_to(x, device);
  if (!is_floating(x.dtype())) return y;
  return record("to", y, {x}, [from](const Tensor& grad, GradSinks& into) {
    if (into[0].needed()) into[0].add(copied_to(grad, from));
  });
}

Tensor to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const DeviceType device = x.device().type;
  Tensor y = empty(x.shape(), {dtype, x.device()});
  if (x.is_dense()) y = y.as_strided(x.shape(), x.strides());
  kernels::copy(device, x, y);
  if (!is_floating(dtype)) return y;
  return record("to", y, {x}, [=](const Tensor& grad, GradSinks& into) {
    into[0].write_wider([&](Tensor& dx, bool accumulate) {
      if (accumulate) {
        kernels::accumulate(device, grad, dx, 1.0);
      } else {
        kernels::copy(device, grad, dx);
      }
    });
  });
}

Tensor swiglu(const Tensor& x) {
  detail::check_floating("swiglu", x);
  Tensor y = empty(detail::swiglu_shape(x.shape()), {x.dtype(), x.device()});
  detail::swiglu_into(x, y);
  if (!needs_grad({x})) return y;
  const SavedTensor saved(x, "swiglu", "input");
  return record("swiglu", y, {x}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor kept = saved.unpack();
    into[0].write([&](Tensor& target, bool accumulate) {
      Tensor dx = accumulate ? empty_like(kept) : target;
      detail::swiglu_backward_into(kept, grad, dx);
      if (accumulate) detail::put(dx, target, true);
    });
  });
}

}  // namespace tenon
