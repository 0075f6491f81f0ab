// The fully connected layer.
#pragma once

#include "tenon/autograd/ops/matmul.h"
#include "tenon/nn/child.h"

namespace tenon::nn {

struct LinearOptions {
  bool bias = true;
  Activation activation = Activation::none;  // computed by the same kernel
};

// y = activation(x W^T + b): x (…, in), W (out, in), y (…, out).
class Linear : public Module {
 public:
  using Options = LinearOptions;
  Linear(int64_t in, int64_t out, Options options = {});
  Tensor forward(const Tensor& x);

  Parameter weight;
  Parameter bias;

 private:
  Options options_;
};

}  // namespace tenon::nn
