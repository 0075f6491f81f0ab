#include "tenon/autograd/ops/softmax.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/kernels/softmax.h"

namespace tenon {
namespace {

using Forward = decltype(kernels::softmax);
using Backward = decltype(kernels::softmax_backward);

Tensor along_axis(const char* op, const Forward& forward, const Backward& backward, const Tensor& x,
                  int axis) {
  detail::check_floating(op, x);
  const int at = normalize_axis(op, axis, x.ndim());
  const DeviceType device = x.device().type;
  Tensor y = empty_like(x);
  forward(device, x, y, at);
  if (!needs_grad({x})) return y;
  const SavedTensor saved(y, op, "output");
  return record(op, y, {x}, [=, &backward](const Tensor& grad, GradSinks& into) {
    const Tensor output = saved.unpack();
    Tensor dx = empty_like(output);
    backward(device, output, grad, dx, at);
    into[0].add(dx);
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return along_axis("softmax", kernels::softmax, kernels::softmax_backward, x, axis);
}
Tensor log_softmax(const Tensor& x, int axis) {
  return along_axis("log_softmax", kernels::log_softmax, kernels::log_softmax_backward, x, axis);
}

}  // namespace tenon
