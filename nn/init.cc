#include "tenon/nn/init.h"

#include <cmath>
#include <vector>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/random.h"
#include "tenon/core/rank_context.h"

namespace tenon::nn::init {
namespace {

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The z between low and high with normal_cdf(z) = p. Bisection: initial values need no speed.
double normal_quantile(double p, double low, double high) {
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double kaiming_stddev(const Tensor& weight, double a, Fan fan) {
  return std::sqrt(2.0 / ((1 + a * a) * static_cast<double>(fan_of(weight, fan))));
}

double xavier_stddev(const Tensor& weight, double gain) {
  const auto fans = static_cast<double>(fan_of(weight, Fan::in) + fan_of(weight, Fan::out));
  return gain * std::sqrt(2.0 / fans);
}

void uniform_with_stddev(const Tensor& x, double stddev) {
  const double bound = std::sqrt(3.0) * stddev;
  init::uniform_(x, -bound, bound);
}

}  // namespace

int64_t fan_of(const Tensor& weight, Fan fan) {
  TENON_CHECK(weight.ndim() >= 2, "init", "no fan without two dimensions: given shape ",
              weight.shape(), ", wanted (outputs, inputs, …)");
  int64_t receptive = 1;
  for (int i = 2; i < weight.ndim(); ++i) receptive *= weight.dim(i);
  return weight.dim(fan == Fan::in ? 1 : 0) * receptive;
}

void uniform_(const Tensor& x, double low, double high) {
  const NoGrad no_grad;
  tenon::uniform_(x, low, high, &rank_context().init);
}

void normal_(const Tensor& x, double mean, double stddev) {
  const NoGrad no_grad;
  tenon::normal_(x, mean, stddev, &rank_context().init);
}

void trunc_normal_(const Tensor& x, double mean, double stddev, double low, double high) {
  TENON_CHECK(stddev > 0 && low < high, "trunc_normal_", "bad interval: given stddev ", stddev,
              ", low ", low, ", high ", high, ", wanted stddev > 0 and low < high");
  const double z_low = (low - mean) / stddev, z_high = (high - mean) / stddev;
  const double p_low = normal_cdf(z_low), p_high = normal_cdf(z_high);
  const Tensor uniform = empty(x.shape(), {.dtype = DType::f64, .device = kCpu});
  init::uniform_(uniform, p_low, p_high);
  double* const values = uniform.data<double>();
  for (int64_t i = 0; i < uniform.numel(); ++i) {
    values[i] = mean + stddev * normal_quantile(values[i], z_low, z_high);
  }
  const NoGrad no_grad;
  copy_(x, copied_to(uniform, x.device()));
}

void constant_(const Tensor& x, double value) {
  const NoGrad no_grad;
  fill_(x, value);
}

void kaiming_uniform_(const Tensor& weight, double a, Fan fan) {
  uniform_with_stddev(weight, kaiming_stddev(weight, a, fan));
}
void kaiming_normal_(const Tensor& weight, double a, Fan fan) {
  init::normal_(weight, 0, kaiming_stddev(weight, a, fan));
}
void xavier_uniform_(const Tensor& weight, double gain) {
  uniform_with_stddev(weight, xavier_stddev(weight, gain));
}
void xavier_normal_(const Tensor& weight, double gain) {
  init::normal_(weight, 0, xavier_stddev(weight, gain));
}

}  // namespace tenon::nn::init
