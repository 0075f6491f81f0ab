#include "tenon/nn/conv.h"

namespace tenon::nn {
namespace {

Shape weight_shape(int64_t in, int64_t out, const Size2& kernel, const Conv2dOptions& options) {
  check_positive("conv2d", "number of input channels", in);
  check_positive("conv2d", "number of output channels", out);
  check_positive("conv2d", "number of groups", options.groups);
  for (const int64_t size : kernel.value) check_positive("conv2d", "kernel size", size);
  for (const int64_t step : options.stride.value) check_positive("conv2d", "stride", step);
  for (const int64_t step : options.dilation.value) check_positive("conv2d", "dilation", step);
  for (const int64_t size : options.padding.value) {
    TENON_CHECK(size >= 0, "conv2d", "negative padding: given ", size);
  }
  TENON_CHECK(in % options.groups == 0 && out % options.groups == 0, "conv2d",
              "channels do not divide into groups: given ", in, " input and ", out,
              " output channels, ", options.groups, " groups");
  return {out, in / options.groups, kernel.value[0], kernel.value[1]};
}

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Size2 kernel, Options options)
    : weight(this, "weight", new_weight(weight_shape(in, out, kernel, options))),
      bias(this, "bias", new_bias(weight, options.bias)),
      params_{options.stride.value, options.padding.value, options.dilation.value, options.groups},
      activation_(options.activation) {}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(compute(x), compute(weight), compute(bias), params_, activation_);
}

}  // namespace tenon::nn
