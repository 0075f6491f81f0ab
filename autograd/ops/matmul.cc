#include "tenon/autograd/ops/matmul.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

using detail::raw_reshape;
using detail::raw_transpose;

Tensor swap_last(const Tensor& x) { return raw_transpose(x, x.ndim() - 2, x.ndim() - 1); }

// x (…, D) as (R, D).
Tensor rows_of(const Tensor& x) {
  const int64_t width = x.dim(-1);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.shape()[i];
  return raw_reshape(x, {rows, width});
}

// out = a b, also for an `out` of more dimensions than a and b have.
void product_into(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  const kernels::MatmulEpilogue epilogue{.accumulate = accumulate};
  if (out.ndim() == a.ndim()) {
    kernels::matmul(out.device().type, a, b, out, epilogue);
  } else if (auto view = detail::try_view(out, {a.dim(0), b.dim(-1)})) {
    kernels::matmul(out.device().type, a, b, *view, epilogue);
  } else {
    Tensor rows = empty({a.dim(0), b.dim(-1)}, {out.dtype(), out.device()});
    kernels::matmul(out.device().type, a, b, rows, {});
    const Tensor shaped = rows.alias(0, out.shape());
    if (accumulate) {
      kernels::accumulate(out.device().type, shaped, out, 1.0);
    } else {
      kernels::copy(out.device().type, shaped, out);
    }
  }
}

Shape batch_of(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(shape.size() - 1);
  shape.erase(shape.size() - 1);
  return shape;
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Gives a b, summed over broadcast batch dimensions, to the sink of an input of `shape`.
void add_product(GradSink sink, const Tensor& a, const Tensor& b, const Shape& shape,
                 const Shape& full) {
  if (shape == full) {
    sink.write_wider([&](Tensor& out, bool accumulate) {
      kernels::matmul(out.device().type, a, b, out, {.accumulate = accumulate});
    });
    return;
  }
  Tensor product = empty(full, {a.dtype(), a.device()});
  kernels::matmul(a.device().type, a, b, product, {});
  detail::add_reduced(sink, product, shape);
}

Tensor batched(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes("matmul", batch_of(a), batch_of(b));
  const Shape full_a = with_matrix(batch, a.dim(-2), a.dim(-1));
  const Shape full_b = with_matrix(batch, b.dim(-2), b.dim(-1));
  Tensor y = empty(with_matrix(batch, a.dim(-2), b.dim(-1)), {a.dtype(), a.device()});
  kernels::matmul(a.device().type, detail::raw_expand(a, full_a), detail::raw_expand(b, full_b), y,
                  {});
  if (!needs_grad({a, b})) return y;
  const SavedTensor saved_a(a, "matmul", "left operand"), saved_b(b, "matmul", "right operand");
  return record("matmul", y, {a, b}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor left = saved_a.unpack(), right = saved_b.unpack();
    if (into[1].needed()) {
      add_product(into[1], swap_last(detail::raw_expand(left, full_a)), grad, right.shape(),
                  full_b);
    }
    if (into[0].needed()) {
      add_product(into[0], grad, swap_last(detail::raw_expand(right, full_b)), left.shape(),
                  full_a);
    }
  });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_same_device("matmul", a, b);
  check_same_dtype("matmul", a, b);
  detail::check_floating("matmul", a);
  TENON_CHECK(a.ndim() >= 2 && b.ndim() >= 2 && a.dim(-1) == b.dim(-2), "matmul",
              "shapes do not fit: given ", a.shape(), " and ", b.shape(),
              ", wanted (…, M, K) and (…, K, N)");
  if (b.ndim() > 2 || a.ndim() == 2) return batched(a, b);
  // (…, M, K) times one matrix: a single product over all rows.
  const Tensor rows = rows_of(a);
  Shape shape = a.shape();
  shape[a.ndim() - 1] = b.dim(-1);
  Tensor y = empty(shape, {a.dtype(), a.device()});
  product_into(rows, b.detach(), y, false);
  if (!needs_grad({a, b})) return y;
  const SavedTensor saved_rows(rows, "matmul", "left operand"),
      saved_b(b, "matmul", "right operand");
  return record("matmul", y, {a, b}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor grad_rows = rows_of(grad);
    if (into[1].needed()) {
      into[1].write_wider([&](Tensor& out, bool accumulate) {
        product_into(swap_last(saved_rows.unpack()), grad_rows, out, accumulate);
      });
    }
    if (into[0].needed()) {
      into[0].write_wider([&](Tensor& out, bool accumulate) {
        product_into(grad_rows, swap_last(saved_b.unpack()), out, accumulate);
      });
    }
  });
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  check_same_device("linear", x, weight);
  check_same_dtype("linear", x, weight);
  detail::check_floating("linear", x);
  TENON_CHECK(x.ndim() >= 1 && weight.ndim() == 2 && x.dim(-1) == weight.dim(1), "linear",
              "shapes do not fit: given input ", x.shape(), " and weight ", weight.shape(),
              ", wanted (…, K) and (N, K)");
  if (bias.defined()) {
    check_same_device("linear", x, bias);
    check_same_dtype("linear", x, bias);
    TENON_CHECK(bias.ndim() == 1 && bias.dim(0) == weight.dim(0), "linear", "wrong bias: given ",
                bias.shape(), ", wanted (", weight.dim(0), ")");
  }
  TENON_CHECK(activation != Activation::gelu || !needs_grad({x, weight, bias}), "linear",
              "gelu cannot be fused while recording: wanted gelu(linear(…))");
  const DeviceType device = x.device().type;
  const Tensor rows = rows_of(x);
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.dim(0);
  Tensor y = empty(shape, {x.dtype(), x.device()});
  Tensor y_rows = y.alias(0, {rows.dim(0), weight.dim(0)});
  kernels::matmul(device, rows, swap_last(weight), y_rows,
                  {.bias = bias.defined() ? &bias : nullptr, .activation = activation});
  if (!needs_grad({x, weight, bias})) return y;

  const SavedTensor saved_rows(rows, "linear", "input"), saved_weight(weight, "linear", "weight");
  const bool relu = activation == Activation::relu;
  const SavedTensor saved_y = relu ? SavedTensor(y, "linear", "output") : SavedTensor();
  return record("linear", y, {x, weight, bias}, [=](const Tensor& grad, GradSinks& into) {
    Tensor grad_rows = rows_of(grad);
    if (relu) {
      const Tensor out_rows = rows_of(saved_y.unpack());
      Tensor masked = empty_like(out_rows);
      kernels::Unary<kernels::Relu>::backward(device, out_rows, grad_rows, masked, {}, false);
      grad_rows = masked;
    }
    if (into[1].needed()) {
      into[1].write_wider([&](Tensor& out, bool accumulate) {
        product_into(swap_last(grad_rows), saved_rows.unpack(), out, accumulate);
      });
    }
    if (into[2].needed()) detail::add_reduced(into[2], grad_rows, {grad_rows.dim(1)});
    if (into[0].needed()) {
      into[0].write_wider([&](Tensor& out, bool accumulate) {
        product_into(grad_rows, saved_weight.unpack(), out, accumulate);
      });
    }
  });
}

}  // namespace tenon
