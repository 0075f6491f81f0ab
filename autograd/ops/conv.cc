#include "tenon/autograd/ops/conv.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

using detail::empty_with_layout_of;

void check_image(const char* op, const Tensor& x) {
  detail::check_floating(op, x);
  TENON_CHECK(x.ndim() == 4, op, "wrong shape: given ", x.shape(), ", wanted (N, C, H, W)");
}

void check_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvParams& p,
                Activation activation) {
  check_image("conv2d", x);
  check_same_device("conv2d", x, weight);
  check_same_dtype("conv2d", x, weight);
  TENON_CHECK(p.groups >= 1 && p.stride[0] >= 1 && p.stride[1] >= 1 && p.dilation[0] >= 1 &&
                  p.dilation[1] >= 1 && p.padding[0] >= 0 && p.padding[1] >= 0,
              "conv2d", "wrong parameters: wanted groups, stride, dilation >= 1 and padding >= 0");
  TENON_CHECK(
      weight.ndim() == 4 && x.dim(1) == weight.dim(1) * p.groups && weight.dim(0) % p.groups == 0,
      "conv2d", "shapes do not fit: given input ", x.shape(), ", weight ", weight.shape(),
      ", groups ", p.groups, ", wanted (N, C, H, W) and (K, C / groups, R, S)");
  if (bias.defined()) {
    check_same_device("conv2d", x, bias);
    check_same_dtype("conv2d", x, bias);
    TENON_CHECK(bias.ndim() == 1 && bias.dim(0) == weight.dim(0), "conv2d", "wrong bias: given ",
                bias.shape(), ", wanted (", weight.dim(0), ")");
  }
  TENON_CHECK(activation != Activation::gelu, "conv2d", "wanted activation none or relu");
}

// Sizes of the result along height and width.
int64_t conv_size(int64_t size, int64_t kernel, const ConvParams& p, size_t axis) {
  return (size + 2 * p.padding[axis] - p.dilation[axis] * (kernel - 1) - 1) / p.stride[axis] + 1;
}

// Gradients of weight and bias, straight into their slots.
void add_weight_gradients(const Tensor& x, const Tensor& grad, const ConvParams& params,
                          GradSinks& into) {
  const DeviceType device = x.device().type;
  if (!into[1].needed()) {
    if (into[2].needed()) {
      detail::add_reduced(into[2], detail::raw_transpose(grad, 1, 3), {grad.dim(1)});
    }
    return;
  }
  into[1].write_wider([&](Tensor& dweight, bool accumulate) {
    if (!into[2].needed()) {
      kernels::conv2d_backward_weight(device, x, grad, dweight, nullptr, params, accumulate, false);
      return;
    }
    into[2].write_wider([&](Tensor& dbias, bool accumulate_bias) {
      kernels::conv2d_backward_weight(device, x, grad, dweight, &dbias, params, accumulate,
                                      accumulate_bias);
    });
  });
}

Shape pooled_shape(const char* op, const Tensor& x, const PoolParams& p) {
  check_image(op, x);
  Shape shape{x.dim(0), x.dim(1), 0, 0};
  for (int i = 0; i < 2; ++i) {
    const auto axis = static_cast<size_t>(i);
    TENON_CHECK(p.kernel[axis] >= 1 && p.stride[axis] >= 1 && p.padding[axis] >= 0 &&
                    2 * p.padding[axis] <= p.kernel[axis],
                op, "wrong parameters: wanted kernel, stride >= 1 and 0 <= padding <= kernel / 2");
    const int64_t room = x.dim(2 + i) + 2 * p.padding[axis] - p.kernel[axis];
    TENON_CHECK(room >= 0, op, "window larger than the image: given ", x.shape(), ", kernel (",
                p.kernel[0], ", ", p.kernel[1], ")");
    shape[2 + i] = room / p.stride[axis] + 1;
  }
  return shape;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvParams& params,
              Activation activation) {
  check_conv(x, weight, bias, params, activation);
  const Shape shape{x.dim(0), weight.dim(0), conv_size(x.dim(2), weight.dim(2), params, 0),
                    conv_size(x.dim(3), weight.dim(3), params, 1)};
  TENON_CHECK(shape[2] > 0 && shape[3] > 0, "conv2d", "kernel larger than the image: given input ",
              x.shape(), ", weight ", weight.shape());
  const DeviceType device = x.device().type;
  Tensor y = detail::empty_image(shape, {x.dtype(), x.device()}, true);
  kernels::conv2d(device, x, weight, bias.defined() ? &bias : nullptr, y, params, activation);
  if (!needs_grad({x, weight, bias})) return y;

  const SavedTensor saved_x(x, "conv2d", "input"), saved_weight(weight, "conv2d", "weight");
  const bool relu = activation == Activation::relu;
  const SavedTensor saved_y = relu ? SavedTensor(y, "conv2d", "output") : SavedTensor();
  return record("conv2d", y, {x, weight, bias}, [=](const Tensor& grad, GradSinks& into) {
    Tensor dy = grad;
    if (relu) {
      const Tensor output = saved_y.unpack();
      dy = empty_like(output);
      kernels::Unary<kernels::Relu>::backward(device, output, grad, dy, {}, false);
    }
    add_weight_gradients(saved_x.unpack(), dy, params, into);
    if (!into[0].needed()) return;
    into[0].write([&](Tensor& dx, bool accumulate) {
      kernels::conv2d_backward_input(device, dy, saved_weight.unpack(), dx, params, accumulate);
    });
  });
}

Tensor max_pool2d(const Tensor& x, const PoolParams& params) {
  const Shape shape = pooled_shape("max_pool2d", x, params);
  const DeviceType device = x.device().type;
  Tensor y = empty_with_layout_of(x, shape);
  const DType index = params.kernel[0] * params.kernel[1] <= 256 ? DType::u8 : DType::i32;
  Tensor window = empty(shape, {index, x.device()}).as_strided(shape, y.strides());
  kernels::max_pool2d(device, x, y, window, params);
  if (!needs_grad({x})) return y;
  const SavedTensor saved(window, "max_pool2d", "window");
  const bool last = detail::is_channels_last(x);
  return record("max_pool2d", y, {x}, [=, from = x.shape()](const Tensor& grad, GradSinks& into) {
    Tensor dx = detail::empty_image(from, {grad.dtype(), grad.device()}, last);
    kernels::max_pool2d_backward(device, grad, saved.unpack(), dx, params);
    into[0].add(dx);
  });
}

Tensor avg_pool2d(const Tensor& x, const PoolParams& params) {
  const Shape shape = pooled_shape("avg_pool2d", x, params);
  const DeviceType device = x.device().type;
  Tensor y = empty_with_layout_of(x, shape);
  kernels::avg_pool2d(device, x, y, params);
  if (!needs_grad({x})) return y;
  const bool last = detail::is_channels_last(x);
  return record("avg_pool2d", y, {x}, [=, from = x.shape()](const Tensor& grad, GradSinks& into) {
    Tensor dx = detail::empty_image(from, {grad.dtype(), grad.device()}, last);
    kernels::avg_pool2d_backward(device, grad, dx, params);
    into[0].add(dx);
  });
}

}  // namespace tenon
