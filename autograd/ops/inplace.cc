#include "tenon/autograd/ops/inplace.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

// A handle to write through; the caller bumps the version when done.
Tensor writable(const char* op, const Tensor& x) {
  detail::check_writable(op, x);
  return x.detach();
}

}  // namespace

void fill_(const Tensor& x, double value) {
  Tensor out = writable("fill_", x);
  kernels::fill(x.device().type, out, value);
  x.bump_version();
}

void copy_(const Tensor& x, const Tensor& source) {
  Tensor out = writable("copy_", x);
  TENON_CHECK(broadcast_shapes("copy_", source.shape(), x.shape()) == x.shape(), "copy_",
              "shapes do not fit: given ", source.shape(), ", wanted ", x.shape());
  check_same_device("copy_", x, source);
  kernels::copy(x.device().type, detail::raw_expand(source, x.shape()), out);
  x.bump_version();
}

void add_(const Tensor& x, const Tensor& y, double alpha) {
  Tensor out = writable("add_", x);
  check_same_shape("add_", x, y);
  check_same_device("add_", x, y);
  kernels::accumulate(x.device().type, y, out, alpha);
  x.bump_version();
}

void mul_(const Tensor& x, double factor) {
  Tensor out = writable("mul_", x);
  kernels::scale(x.device().type, out, factor);
  x.bump_version();
}

}  // namespace tenon
