// Pooling layers over windows of (N, C, H, W).
#pragma once

#include "tenon/autograd/ops/conv.h"
#include "tenon/nn/child.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {

struct Pool2dOptions {
  Size2 stride = 0;  // 0: the kernel's size, windows side by side
  Size2 padding = 0;
};

template <Tensor (*pool)(const Tensor&, const PoolParams&)>
class Pool2d : public Module {
 public:
  using Options = Pool2dOptions;
  explicit Pool2d(Size2 kernel, Options options = {})
      : params_{kernel.value, options.stride.value, options.padding.value} {
    for (size_t i = 0; i < 2; ++i) {
      if (params_.stride[i] == 0) params_.stride[i] = params_.kernel[i];
      check_positive("pool2d", "kernel size", params_.kernel[i]);
      check_positive("pool2d", "stride", params_.stride[i]);
    }
  }
  Tensor forward(const Tensor& x) { return pool(x, params_); }

 private:
  PoolParams params_;
};

using MaxPool2d = Pool2d<max_pool2d>;
using AvgPool2d = Pool2d<avg_pool2d>;

}  // namespace tenon::nn
