#include "tenon/kernels/cuda/bias_activation.h"

#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels::cuda {
namespace {

template <class C>
struct AddAndActivate {
  __device__ C operator()(C value, C bias) const {
    const C sum = value + bias;
    switch (activation) {
      case Activation::relu:
        return Relu::forward(sum, ParamsOf<C>{});
      case Activation::gelu:
        return Gelu::forward(sum, ParamsOf<C>{});
      default:
        return sum;
    }
  }

  Activation activation;
};

// The bias as it is added to every element of y.
Tensor broadcast_bias(const Tensor& bias, const Tensor& y, int axis) {
  Strides strides = y.strides();
  for (int i = 0; i < strides.size(); ++i) strides[i] = i == axis ? bias.strides()[0] : 0;
  return bias.as_strided(y.shape(), strides);
}

}  // namespace

void add_bias_and_activate(const char* op, Tensor& y, const Tensor* bias, int axis,
                           Activation activation) {
  if (y.numel() == 0) return;
  if (bias == nullptr) {
    if (activation == Activation::relu) Unary<Relu>::forward(DeviceType::cuda, y, y, {});
    if (activation == Activation::gelu) Unary<Gelu>::forward(DeviceType::cuda, y, y, {});
    return;
  }
  Tensor vector = *bias;
  if (bias->dtype() != y.dtype()) {
    vector = empty(bias->shape(), {y.dtype(), y.device(), Category::other});
    copy(DeviceType::cuda, *bias, vector);
  }
  const Tensor added = broadcast_bias(vector, y, axis);
  dispatch_floating(y.dtype(), op, [&]<class T>() {
    map_elements<T, T, T>(op, AddAndActivate<Compute<T>>{activation}, y, y, added);
  });
}

}  // namespace tenon::kernels::cuda
