#include "tenon/autograd/ops/matmul.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/autograd/ops/products.h"
#include "tenon/kernels/matmul.h"

namespace tenon {
namespace {

using detail::product_into;
using detail::rows_of;
using detail::swap_last;

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

}  // namespace tenon
