#include "tenon/nn/layer_support.h"

#include <cmath>

#include "tenon/core/factory.h"
#include "tenon/nn/init.h"
#include "tenon/nn/parameter.h"

namespace tenon::nn {

Tensor new_parameter(const Shape& shape) {
  return empty(shape, {default_dtype(), default_device(), Category::parameter});
}

Tensor new_weight(const Shape& shape) {
  const Tensor weight = new_parameter(shape);
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  return weight;
}

Tensor new_bias(const Tensor& weight, bool with_bias) {
  if (!with_bias) return {};
  const Tensor bias = new_parameter({weight.dim(0)});
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_of(weight, init::Fan::in)));
  init::uniform_(bias, -bound, bound);
  return bias;
}

Tensor new_constant(const Shape& shape, double value, bool wanted) {
  if (!wanted) return {};
  return full(shape, value, {default_dtype(), default_device(), Category::parameter});
}

void check_positive(const char* layer, const char* what, int64_t value) {
  TENON_CHECK(value > 0, layer, "bad ", what, ": given ", value, ", wanted a positive number");
}

}  // namespace tenon::nn
