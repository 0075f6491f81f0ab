// The fully connected layer.
#pragma once

#include "tenon/autograd/ops/linear.h"
#include "tenon/nn/child.h"

namespace tenon::nn {

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  // computed by the same kernel
  // Of the input, before the product. What it gives is not kept: backward computes it again.
  InputActivation input_activation = InputActivation::none;
};

// y = activation(f(x) W^T + b) with f the input_activation: x (…, in) ((…, 2 in) for swiglu),
// W (out, in), y (…, out).
class Linear : public Module {
 public:
  using Options = LinearOptions;
  Linear(int64_t in, int64_t out, Options options = {});
  Tensor forward(const Tensor& x);
  // residual + forward(x) in one kernel, for layers without an activation.
  Tensor forward(const Tensor& x, const Tensor& residual);

  Parameter weight;
  Parameter bias;

 private:
  Options options_;
};

}  // namespace tenon::nn
