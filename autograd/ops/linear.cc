#include "tenon/autograd/ops/linear.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/autograd/ops/products.h"

namespace tenon {
namespace {

using detail::product_into;
using detail::rows_of;
using detail::swap_last;

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_same_device("linear", x, weight);
  check_same_dtype("linear", x, weight);
  detail::check_floating("linear", x);
  TENON_CHECK(x.ndim() >= 1 && weight.ndim() == 2 && x.dim(-1) == weight.dim(1), "linear",
              "shapes do not fit: given input ", x.shape(), " and weight ", weight.shape(),
              ", wanted (…, K) and (N, K)");
  if (!bias.defined()) return;
  check_same_device("linear", x, bias);
  check_same_dtype("linear", x, bias);
  TENON_CHECK(bias.ndim() == 1 && bias.dim(0) == weight.dim(0), "linear", "wrong bias: given ",
              bias.shape(), ", wanted (", weight.dim(0), ")");
}

void check_residual(const Tensor& x, const Tensor& weight, const Tensor& residual) {
  check_same_device("linear_add", x, residual);
  check_same_dtype("linear_add", x, residual);
  Shape shape = x.shape();
  shape[shape.size() - 1] = weight.dim(0);
  TENON_CHECK(residual.shape() == shape, "linear_add", "wrong residual: given ", residual.shape(),
              ", wanted ", shape);
}

void give_weight(const Tensor& rows, const Tensor& grad_rows, GradSink into) {
  into.write_wider([&](Tensor& out, bool accumulate) {
    product_into(swap_last(grad_rows), rows, out, accumulate);
  });
}

// What backward of a linear layer keeps, and the gradients of its input, weight and bias. Made
// before the product: a recomputation (checkpoint.h) ends with the last tensor that is kept.
struct LinearSaved {
  LinearSaved() = default;
  LinearSaved(const Tensor& rows, const Tensor& weight)
      : rows(rows, "linear", "input"), weight(weight, "linear", "weight") {}

  void give(const Tensor& grad_rows, GradSinks& into) const {
    if (into[1].needed()) give_weight(rows.unpack(), grad_rows, into[1]);
    if (into[2].needed()) detail::add_reduced(into[2], grad_rows, {grad_rows.dim(1)});
    if (into[0].needed()) {
      into[0].write_wider([&](Tensor& out, bool accumulate) {
        product_into(grad_rows, weight.unpack(), out, accumulate);
      });
    }
  }

  SavedTensor rows, weight;
};

// activation(rows W^T + bias) or, given one, + residual, in a new tensor of x's shape but for the
// last dimension.
Tensor linear_forward(const Tensor& x, const Tensor& rows, const Tensor& weight, const Tensor& bias,
                      kernels::MatmulEpilogue epilogue) {
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.dim(0);
  const Tensor y = empty(shape, {x.dtype(), x.device()});
  Tensor y_rows = y.alias(0, {rows.dim(0), weight.dim(0)});
  if (bias.defined()) epilogue.bias = &bias;
  kernels::matmul(x.device().type, rows, swap_last(weight), y_rows, epilogue);
  return y;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  check_linear(x, weight, bias);
  TENON_CHECK(activation != Activation::gelu || !needs_grad({x, weight, bias}), "linear",
              "gelu cannot be fused while recording: wanted gelu(linear(…))");
  const Tensor rows = rows_of(x);
  const bool recording = needs_grad({x, weight, bias});
  const LinearSaved saved = recording ? LinearSaved(rows, weight) : LinearSaved();
  const Tensor y = linear_forward(x, rows, weight, bias, {.activation = activation});
  if (!recording) return y;
  const bool relu = activation == Activation::relu;
  const SavedTensor saved_y = relu ? SavedTensor(y, "linear", "output") : SavedTensor();
  return record("linear", y, {x, weight, bias}, [=](const Tensor& grad, GradSinks& into) {
    Tensor grad_rows = rows_of(grad);
    if (relu) {
      const Tensor out_rows = rows_of(saved_y.unpack());
      Tensor masked = empty_like(out_rows);
      kernels::Unary<kernels::Relu>::backward(grad.device().type, out_rows, grad_rows, masked, {},
                                              false);
      grad_rows = masked;
    }
    saved.give(grad_rows, into);
  });
}

Tensor linear_add(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual) {
  check_linear(x, weight, bias);
  check_residual(x, weight, residual);
  const Tensor rows = rows_of(x), added = detail::raw_contiguous(rows_of(residual));
  const bool recording = needs_grad({x, weight, bias, residual});
  const LinearSaved saved = recording ? LinearSaved(rows, weight) : LinearSaved();
  const Tensor y = linear_forward(x, rows, weight, bias, {.residual = &added});
  if (!recording) return y;
  return record("linear_add", y, {x, weight, bias, residual},
                [=](const Tensor& grad, GradSinks& into) {
                  saved.give(rows_of(grad), into);
                  into[3].add(grad);
                });
}

namespace {

// y = f(x); and dx = f'(x) dy, which may use dy's memory.
template <class Op>
struct Pointwise {
  static Shape output_shape(const Shape& shape) { return shape; }
  static void forward(const Tensor& x, Tensor& y) {
    kernels::Unary<Op>::forward(x.device().type, x, y, {});
  }
  static void backward(const Tensor& x, const Tensor& dy, Tensor& dx) {
    kernels::Unary<Op>::backward(x.device().type, x, dy, dx, {}, false);
  }
};
struct SwiGlu {
  static Shape output_shape(const Shape& shape) { return detail::swiglu_shape(shape); }
  static void forward(const Tensor& x, Tensor& y) { detail::swiglu_into(x, y); }
  static void backward(const Tensor& x, const Tensor& dy, Tensor& dx) {
    detail::swiglu_backward_into(x, dy, dx);
  }
};

template <class F>
Tensor activated(const Tensor& x) {
  Tensor y = empty(F::output_shape(x.shape()), {x.dtype(), x.device()});
  F::forward(x, y);
  return y;
}

template <class F>
Tensor linear_of(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& residual) {
  detail::check_floating("linear", x);
  const Tensor input = detail::raw_contiguous(x);
  const bool recording = needs_grad({x, weight, bias, residual});
  const auto keep = [&](const Tensor& tensor, const char* what) {
    return recording ? SavedTensor(tensor, "linear", what) : SavedTensor();
  };
  const SavedTensor saved_x = keep(input, "input"), saved_weight = keep(weight, "weight");
  const Tensor hidden = activated<F>(input);
  check_linear(hidden, weight, bias);
  if (residual.defined()) check_residual(hidden, weight, residual);
  const Tensor added = residual.defined() ? detail::raw_contiguous(rows_of(residual)) : Tensor();
  const Tensor y = linear_forward(hidden, rows_of(hidden), weight, bias,
                                  {.residual = residual.defined() ? &added : nullptr});
  if (!recording) return y;
  return record(
      "activated_linear", y, {x, weight, bias, residual}, [=](const Tensor& grad, GradSinks& into) {
        const Tensor kept = saved_x.unpack(), grad_rows = rows_of(grad);
        if (into[1].needed()) {
          give_weight(rows_of(activated<F>(kept)), grad_rows, into[1]);
        }
        if (into[2].needed()) {
          detail::add_reduced(into[2], grad_rows, {grad_rows.dim(1)});
        }
        into[0].write([&](Tensor& out, bool accumulate) {
          // An op as wide as its input computes its gradient in place.
          const Shape shape = F::output_shape(kept.shape());
          Tensor dx = accumulate || !out.is_contiguous() ? empty_like(kept) : out;
          Tensor dhidden = dx.shape() == shape ? dx : empty(shape, {dx.dtype(), dx.device()});
          product_into(grad_rows, saved_weight.unpack(), dhidden, false);
          F::backward(kept, dhidden, dx);
          if (!dx.is_same(out)) detail::put(dx, out, accumulate);
        });
        if (into[3].needed()) into[3].add(grad);
      });
}

}  // namespace

Tensor activated_linear(InputActivation f, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& residual) {
  switch (f) {
    case InputActivation::gelu:
      return linear_of<Pointwise<kernels::Gelu>>(x, weight, bias, residual);
    case InputActivation::gelu_tanh:
      return linear_of<Pointwise<kernels::GeluTanh>>(x, weight, bias, residual);
    case InputActivation::swiglu:
      return linear_of<SwiGlu>(x, weight, bias, residual);
    case InputActivation::none:
      break;
  }
  return residual.defined() ? linear_add(x, weight, bias, residual) : linear(x, weight, bias);
}

}  // namespace tenon
