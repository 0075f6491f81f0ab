#include "tenon/autograd/ops/products.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/kernels/matmul.h"

namespace tenon::detail {

Tensor swap_last(const Tensor& x) { return raw_transpose(x, x.ndim() - 2, x.ndim() - 1); }

Tensor rows_of(const Tensor& x) {
  const int64_t width = x.dim(-1);
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.shape()[i];
  return raw_reshape(x, {rows, width});
}

void product_into(const Tensor& a, const Tensor& b, Tensor& out, bool accumulate) {
  const kernels::MatmulEpilogue epilogue{.accumulate = accumulate};
  if (out.ndim() == a.ndim()) {
    kernels::matmul(out.device().type, a, b, out, epilogue);
  } else if (auto view = try_view(out, {a.dim(0), b.dim(-1)})) {
    kernels::matmul(out.device().type, a, b, *view, epilogue);
  } else {
    Tensor rows = empty({a.dim(0), b.dim(-1)}, {out.dtype(), out.device()});
    kernels::matmul(out.device().type, a, b, rows, {});
    put(rows.alias(0, out.shape()), out, accumulate);
  }
}

}  // namespace tenon::detail
