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
      options_(options) {
  TENON_CHECK(
      options.activation == Activation::none || options.input_activation == InputActivation::none,
      "linear", "given both activation and input_activation, wanted at most one");
}

Tensor Linear::forward(const Tensor& x) {
  if (options_.input_activation != InputActivation::none) {
    return tenon::activated_linear(options_.input_activation, compute(x), compute(weight),
                                   compute(bias));
  }
  return tenon::linear(compute(x), compute(weight), compute(bias), options_.activation);
}

Tensor Linear::forward(const Tensor& x, const Tensor& residual) {
  TENON_CHECK(options_.activation == Activation::none, "linear",
              "an activation and a residual branch do not go together");
  return tenon::activated_linear(options_.input_activation, compute(x), compute(weight),
                                 compute(bias), compute(residual));
}

}  // namespace tenon::nn
