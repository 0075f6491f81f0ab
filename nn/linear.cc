#include "tenon/nn/linear.h"

#include "tenon/nn/layer_support.h"

namespace tenon::nn {
namespace {

Shape weight_shape(int64_t in, int64_t out) {
  check_positive("linear", "number of inputs", in);
  check_positive("linear", "number of outputs", out);
  return {out, in};
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, Options options)
    : weight(this, "weight", new_weight(weight_shape(in, out))),
      bias(this, "bias", new_bias(weight, options.bias)),
      options_(options) {}

Tensor Linear::forward(const Tensor& x) {
  return tenon::linear(compute(x), compute(weight), compute(bias), options_.activation);
}

}  // namespace tenon::nn
