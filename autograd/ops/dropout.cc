#include "tenon/autograd/ops/dropout.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/core/rank_context.h"
#include "tenon/kernels/random.h"

namespace tenon {

Tensor dropout(const Tensor& x, double p, bool training) {
  detail::check_floating("dropout", x);
  TENON_CHECK(p >= 0 && p < 1, "dropout", "wrong probability: given ", p, ", wanted [0, 1)");
  if (p == 0 || !training) return x;
  const DeviceType device = x.device().type;
  const Tensor source = detail::raw_contiguous(x);  // element i is number i in row-major order
  Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  Tensor mask = empty(x.shape(), {DType::u8, x.device()});
  kernels::dropout(device, source, y, mask, p, rank_context().dropout.reserve(x.numel()));
  if (!needs_grad({x})) return y;
  const SavedTensor saved(mask, "dropout", "mask");
  return record("dropout", y, {x}, [=](const Tensor& grad, GradSinks& into) {
    Tensor dx = empty(grad.shape(), {grad.dtype(), grad.device()});
    kernels::dropout_backward(device, grad, saved.unpack(), dx, p);
    into[0].add(dx);
  });
}

}  // namespace tenon
