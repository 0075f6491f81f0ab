#include "tenon/autograd/ops/reduce.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

using kernels::AxisMask;

AxisMask mask_of(const char* op, const Tensor& x, const std::vector<int>& axes) {
  if (axes.empty()) return (1u << x.ndim()) - 1;
  AxisMask mask = 0;
  for (const int axis : axes) {
    const AxisMask bit = 1u << normalize_axis(op, axis, x.ndim());
    TENON_CHECK((mask & bit) == 0, op, "axis ", axis, " given twice");
    mask |= bit;
  }
  return mask;
}

// x's shape with 1 in the reduced axes, and without them.
struct Reduced {
  Shape kept;
  Shape dropped;
};
Reduced reduced_shapes(const Shape& shape, AxisMask mask) {
  Reduced result;
  for (int i = 0; i < shape.size(); ++i) {
    const bool reduced = (mask >> i & 1) != 0;
    result.kept.push_back(reduced ? 1 : shape[i]);
    if (!reduced) result.dropped.push_back(shape[i]);
  }
  return result;
}

Tensor reduce_sum(const char* op, const Tensor& x, const std::vector<int>& axes, bool keepdim,
                  bool average) {
  const DeviceType device = x.device().type;
  const AxisMask mask = mask_of(op, x, axes);
  const auto [kept, dropped] = reduced_shapes(x.shape(), mask);
  TENON_CHECK(!average || is_floating(x.dtype()), op, "wrong dtype: given ", describe(x),
              ", wanted a floating dtype");
  const double scale =
      average ? static_cast<double>(kept.numel()) / static_cast<double>(x.numel()) : 1;
  Tensor y = empty(kept, {x.dtype(), x.device()});
  kernels::sum(device, x, y, mask, scale, false);
  const Tensor result = y.alias(0, keepdim ? kept : dropped);
  if (!needs_grad({x})) return result;
  const Shape shape = x.shape();
  return record(op, result, {x}, [=, kept = kept](const Tensor& grad, GradSinks& into) {
    Tensor scaled = detail::raw_reshape(grad, kept);
    if (average) {
      const Tensor source = scaled;
      scaled = empty(kept, {grad.dtype(), grad.device()});
      kernels::Unary<kernels::Affine>::forward(device, source, scaled, {scale, 0});
    }
    into[0].add(detail::raw_expand(scaled, shape));
  });
}

using ExtremeSlot = decltype(kernels::max);

// Values and indices of the extreme along an axis, without its dimension unless `keepdim`.
std::pair<Tensor, Tensor> extreme(const char* op, ExtremeSlot& slot, const Tensor& x, int axis,
                                  bool keepdim) {
  const int at = normalize_axis(op, axis, x.ndim());
  TENON_CHECK(x.dim(at) > 0, op, "empty axis: given ", x.shape(), ", axis ", at,
              ", wanted at least one element");
  const auto [kept, dropped] = reduced_shapes(x.shape(), 1u << at);
  Tensor values = empty(kept, {x.dtype(), x.device()});
  Tensor indices = empty(kept, {DType::i64, x.device()});
  slot(x.device().type, x, values, indices, at);
  const Tensor result = values.alias(0, keepdim ? kept : dropped);
  const Tensor places = indices.alias(0, keepdim ? kept : dropped);
  if (!needs_grad({x})) return {result, places};
  const Shape shape = x.shape();
  const SavedTensor saved(indices, op, "indices");
  const Tensor recorded =
      record(op, result, {x}, [=, kept = kept](const Tensor& grad, GradSinks& into) {
        Tensor dx = zeros(shape, {grad.dtype(), grad.device()});
        kernels::scatter_add(grad.device().type, detail::raw_reshape(grad, kept), saved.unpack(),
                             dx, at);
        into[0].add(dx);
      });
  return {recorded, places};
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  return reduce_sum("sum", x, axes, keepdim, false);
}
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  return reduce_sum("mean", x, axes, keepdim, true);
}
Tensor max(const Tensor& x, int axis, bool keepdim) {
  return extreme("max", kernels::max, x, axis, keepdim).first;
}
Tensor min(const Tensor& x, int axis, bool keepdim) {
  return extreme("min", kernels::min, x, axis, keepdim).first;
}
Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  return extreme("argmax", kernels::max, x.detach(), axis, keepdim).second;
}
Tensor argmin(const Tensor& x, int axis, bool keepdim) {
  return extreme("argmin", kernels::min, x.detach(), axis, keepdim).second;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x.detach();
  TENON_CHECK(broadcast_shapes("sum_to", shape, x.shape()) == x.shape(), "sum_to", "cannot reduce ",
              x.shape(), " to ", shape);
  const detail::Broadcast broadcast = detail::broadcast_of(shape, x.shape());
  Tensor y = empty(broadcast.padded, {x.dtype(), x.device()});
  kernels::sum(x.device().type, x, y, broadcast.axes, 1.0, false);
  return y.alias(0, shape);
}

}  // namespace tenon
