// Loss scaling for f16 (Micikevicius et al. 2018; PyTorch's GradScaler): gradients too small for
// f16 are computed larger and divided again before the update; a step whose gradients overflowed is
// left out and the scale halved.
//   scaler.backward(loss);
//   scaler.unscale(model.parameters());  // only for what reads gradients, clipping for example
//   scaler.step(optimizer);
// bf16 has the range of f32 and needs none. Ranks that hold the same gradients (DDP) decide the
// same.
#pragma once

#include <functional>
#include <vector>

#include "tenon/core/tensor.h"
#include "tenon/optim/optimizer.h"

namespace tenon {

struct GradScalerOptions {
  double scale = 65536;
  double growth = 2;     // factor after `growth_interval` steps without overflow
  double backoff = 0.5;  // factor after a step with overflow
  int64_t growth_interval = 2000;
};

class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  // Backward of the loss times the scale.
  void backward(const Tensor& loss) const;
  // Divides the gradients and looks for infinities and NaN; once between two steps.
  void unscale(const std::vector<NamedTensor>& parameters);
  // Unscales the optimizer's gradients if that has not been done, updates unless they overflowed,
  // and chooses the next scale. Whether there was an update.
  bool step(Optimizer& optimizer);

  // Where ranks hold different gradients (shards): gives whether any rank's overflowed.
  void set_any_rank(std::function<bool(bool)> any_rank) { any_rank_ = std::move(any_rank); }

  struct State {
    double scale;
    int64_t steps;  // without overflow, since the scale changed
  };
  State state() const { return {scale_, steps_}; }
  void load_state(const State& state);

 private:
  const GradScalerOptions options_;
  double scale_;
  int64_t steps_ = 0;
  bool unscaled_ = false;
  bool overflowed_ = false;
  std::function<bool(bool)> any_rank_;
};

}  // namespace tenon
