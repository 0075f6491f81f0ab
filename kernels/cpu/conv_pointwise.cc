#include "tenon/kernels/cpu/conv_pointwise.h"

#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"

namespace tenon::kernels {
namespace {

// The pixels that a stride visits: a view of the shape of y, but for its channels.
Tensor visited(const Tensor& x, const Shape& y, const ConvParams& params) {
  const Strides& s = x.strides();
  return x.as_strided({x.dim(0), x.dim(1), y[2], y[3]},
                      {s[0], s[1], s[2] * params.stride[0], s[3] * params.stride[1]});
}

// A channels-last image as a matrix: pixels by channels.
Tensor pixels(const Tensor& image) {
  const int64_t channels = image.dim(1);
  return image.as_strided({image.dim(0) * image.dim(2) * image.dim(3), channels}, {channels, 1});
}

// The weight as a matrix: K by C.
Tensor matrix(const Tensor& weight) {
  return weight.as_strided({weight.dim(0), weight.dim(1)},
                           {weight.strides()[0], weight.strides()[1]});
}

Tensor transposed(const Tensor& matrix) {
  return matrix.as_strided({matrix.dim(1), matrix.dim(0)},
                           {matrix.strides()[1], matrix.strides()[0]});
}

}  // namespace

bool is_pointwise(const Tensor& weight, const ConvParams& params) {
  return weight.dim(2) == 1 && weight.dim(3) == 1 && params.groups == 1 && params.padding[0] == 0 &&
         params.padding[1] == 0;
}

void pointwise_conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y,
                      const ConvParams& params, Activation activation) {
  const Tensor image = to_channels_last(visited(x, y.shape(), params), x.dtype());
  Destination result = channels_last_destination(y, y.dtype(), false);
  Tensor out = pixels(result.buffer());
  matmul(DeviceType::cpu, pixels(image), transposed(matrix(weight)), out,
         {.bias = bias, .activation = activation});
  result.finish();
}

void pointwise_conv2d_backward_input(const Tensor& dy, const Tensor& weight, Tensor& dx,
                                     const ConvParams& params, bool accumulate) {
  const Tensor gradient = to_channels_last(dy, dy.dtype());
  Tensor target = visited(dx, dy.shape(), params);
  if (!accumulate && target.numel() < dx.numel()) fill(DeviceType::cpu, dx, 0);
  Destination result = channels_last_destination(target, dx.dtype(), accumulate);
  Tensor out = pixels(result.buffer());
  matmul(DeviceType::cpu, pixels(gradient), matrix(weight), out, {});
  result.finish();
}

void pointwise_conv2d_backward_weight(const Tensor& x, const Tensor& dy, Tensor& dweight,
                                      const ConvParams& params, bool accumulate) {
  const Tensor image = to_channels_last(visited(x, dy.shape(), params), x.dtype());
  const Tensor gradient = to_channels_last(dy, dy.dtype());
  Tensor out = matrix(dweight);
  matmul(DeviceType::cpu, transposed(pixels(gradient)), pixels(image), out,
         {.accumulate = accumulate});
}

}  // namespace tenon::kernels
