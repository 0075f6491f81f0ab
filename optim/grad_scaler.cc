#include "tenon/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/autograd/engine.h"
#include "tenon/core/factory.h"
#include "tenon/optim/clip.h"

namespace tenon {
namespace {

void check_scale(double scale) {
  TENON_CHECK(std::isfinite(scale) && scale > 0, "grad_scaler", "bad scale: given ", scale,
              ", wanted a positive number");
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.scale) {
  check_scale(options.scale);
  TENON_CHECK(options.growth >= 1 && options.backoff > 0 && options.backoff < 1 &&
                  options.growth_interval > 0,
              "grad_scaler", "given growth ", options.growth, ", backoff ", options.backoff,
              " and growth_interval ", options.growth_interval,
              ", wanted growth >= 1, backoff within (0, 1) and growth_interval > 0");
}

void GradScaler::backward(const Tensor& loss) const {
  tenon::backward(loss, {.gradient = full(loss.shape(), scale_, {loss.dtype(), loss.device()})});
}

void GradScaler::unscale(const std::vector<NamedTensor>& parameters) {
  TENON_CHECK(!unscaled_, "grad_scaler", "unscaled twice, wanted once between two steps");
  // The largest absolute value is finite exactly if all are; a NaN stays.
  overflowed_ = !std::isfinite(grad_norm(parameters, std::numeric_limits<double>::infinity()));
  if (any_rank_) overflowed_ = any_rank_(overflowed_);
  scale_grads(parameters, 1 / scale_);
  unscaled_ = true;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!unscaled_) unscale(optimizer.parameters());
  unscaled_ = false;
  if (overflowed_) {
    scale_ = std::max(scale_ * options_.backoff, std::numeric_limits<double>::min());
    steps_ = 0;
    return false;
  }
  optimizer.step();
  if (++steps_ == options_.growth_interval) {
    scale_ *= options_.growth;
    steps_ = 0;
  }
  return true;
}

void GradScaler::load_state(const State& state) {
  check_scale(state.scale);
  scale_ = state.scale;
  steps_ = state.steps;
}

}  // namespace tenon
