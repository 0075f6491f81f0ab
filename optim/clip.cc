#include "tenon/optim/clip.h"

#include <cmath>
#include <map>

#include "tenon/core/factory.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/reduce.h"

namespace tenon {
namespace {

// Gradients by device: a kernel works on one.
std::map<std::pair<DeviceType, int>, std::vector<Tensor>> gradients_of(
    const std::vector<NamedTensor>& parameters) {
  std::map<std::pair<DeviceType, int>, std::vector<Tensor>> result;
  for (const auto& [name, parameter] : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    result[{gradient.device().type, gradient.device().index}].push_back(gradient);
  }
  return result;
}

void check_finite(const std::vector<NamedTensor>& parameters, double norm, double norm_type) {
  if (std::isfinite(norm)) return;
  for (const auto& parameter : parameters) {
    const double own = norm_of_power_sum(grad_power_sum({parameter}, norm_type), norm_type);
    TENON_CHECK(std::isfinite(own), "clip_grad_norm", "the norm of the gradients is ", norm,
                ": the gradient of ", parameter.name, " is the first that is not finite");
  }
  fail("clip_grad_norm", "the norm of the gradients is ", norm, ": each alone is finite");
}

}  // namespace

double grad_power_sum(const std::vector<NamedTensor>& parameters, double norm_type) {
  TENON_CHECK(norm_type > 0, "clip_grad_norm", "bad norm_type: given ", norm_type,
              ", wanted a positive number or infinity");
  double total = 0;
  for (const auto& [device, gradients] : gradients_of(parameters)) {
    Tensor out = empty({}, {DType::f64, gradients.front().device(), Category::other});
    kernels::power_sum(device.first, gradients, norm_type, out);
    const auto value = out.item<double>();
    // A comparison that a NaN fails keeps it, as adding does.
    total = std::isinf(norm_type) ? (value <= total ? total : value) : total + value;
  }
  return total;
}

double norm_of_power_sum(double power_sum, double norm_type) {
  if (std::isinf(norm_type)) return power_sum;
  return norm_type == 2 ? std::sqrt(power_sum) : std::pow(power_sum, 1 / norm_type);
}

double grad_norm(const std::vector<NamedTensor>& parameters, double norm_type) {
  return norm_of_power_sum(grad_power_sum(parameters, norm_type), norm_type);
}

void scale_grads(const std::vector<NamedTensor>& parameters, double factor) {
  for (auto& [device, gradients] : gradients_of(parameters)) {
    for (Tensor& gradient : gradients) {
      kernels::scale(device.first, gradient, factor);
      gradient.bump_version();
    }
  }
}

void clip_to_norm(const std::vector<NamedTensor>& parameters, double norm, double max_norm) {
  TENON_CHECK(max_norm > 0, "clip_grad_norm", "bad max_norm: given ", max_norm,
              ", wanted a positive number");
  if (norm <= max_norm) return;
  scale_grads(parameters, max_norm / norm);
}

double clip_grad_norm(const std::vector<NamedTensor>& parameters, double max_norm,
                      double norm_type) {
  const double norm = grad_norm(parameters, norm_type);
  check_finite(parameters, norm, norm_type);
  clip_to_norm(parameters, norm, max_norm);
  return norm;
}

}  // namespace tenon
