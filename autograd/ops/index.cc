#include "tenon/autograd/ops/index.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/kernels/embedding.h"

namespace tenon {

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  detail::check_floating("embedding", weight);
  detail::check_index("embedding", ids);
  check_same_device("embedding", weight, ids);
  TENON_CHECK(weight.ndim() == 2, "embedding", "wrong weight: given ", weight.shape(),
              ", wanted (V, D)");
  const DeviceType device = weight.device().type;
  const int64_t rows = ids.numel(), width = weight.dim(1);
  Shape shape = ids.shape();
  shape.push_back(width);
  const Tensor places = detail::raw_contiguous(ids).alias(0, {rows});
  const Tensor table = detail::raw_contiguous(weight);
  Tensor y = empty({rows, width}, {weight.dtype(), weight.device()});
  kernels::embedding(device, table, places, y);
  const Tensor result = y.alias(0, shape);
  if (!needs_grad({weight})) return result;
  const SavedTensor saved(places, "embedding", "ids");
  return record("embedding", result, {weight}, [=](const Tensor& grad, GradSinks& into) {
    const Tensor grad_rows = detail::raw_contiguous(detail::raw_reshape(grad, {rows, width}));
    into[0].write_wider([&](Tensor& out, bool accumulate) {
      kernels::embedding_backward(device, grad_rows, saved.unpack(), out, accumulate);
    });
  });
}

Tensor index_select(const Tensor& x, const Tensor& ids, int axis) {
  detail::check_index("index_select", ids);
  check_same_device("index_select", x, ids);
  TENON_CHECK(ids.ndim() == 1, "index_select", "wrong indices: given ", ids.shape(),
              ", wanted one dimension");
  const int at = normalize_axis("index_select", axis, x.ndim());
  const DeviceType device = x.device().type;
  Shape shape = x.shape();
  shape[at] = ids.dim(0);
  Tensor y = empty(shape, {x.dtype(), x.device()});
  kernels::index_select(device, x, ids, y, at);
  if (!needs_grad({x})) return y;
  const SavedTensor saved(ids, "index_select", "ids");
  return record("index_select", y, {x}, [=](const Tensor& grad, GradSinks& into) {
    into[0].write([&](Tensor& out, bool accumulate) {
      if (!accumulate) kernels::fill(device, out, 0.0);
      kernels::index_add(device, grad, saved.unpack(), out, at);
    });
  });
}

}  // namespace tenon
