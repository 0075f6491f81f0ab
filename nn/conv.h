// The 2-d convolution layer.
#pragma once

#include "tenon/autograd/ops/conv.h"
#include "tenon/nn/child.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {

struct Conv2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;  // none or relu, computed by the same kernel
};

// x (N, in, H, W), weight (out, in / groups, kernel).
class Conv2d : public Module {
 public:
  using Options = Conv2dOptions;
  Conv2d(int64_t in, int64_t out, Size2 kernel, Options options = {});
  Tensor forward(const Tensor& x);

  Parameter weight;
  Parameter bias;

 private:
  ConvParams params_;
  Activation activation_;
};

}  // namespace tenon::nn
