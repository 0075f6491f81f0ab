// Distributed data parallelism: every rank holds the whole model and computes on its own samples;
// the gradients are averaged over the ranks while backward still runs.
//
//   Ddp ddp(model, world.group());
//   AdamW optimizer(ddp.parameters(), {.lr = 3e-4});
//   cross_entropy(ddp(x), y).backward();   // gradients are averaged when this returns
//   optimizer.step();
#pragma once

#include <utility>
#include <vector>

#include "tenon/distributed/ddp/reducer.h"
#include "tenon/nn/child.h"

namespace tenon {

template <class Model>
class Ddp {
 public:
  // Collective: checks that the ranks' models agree and gives all of them rank 0's values. The
  // model must outlive this and keep its parameters.
  Ddp(Model& model, ProcessGroup group, DdpOptions options = {})
      : model_(model), reducer_(model, std::move(group), options) {}

  // The model's forward, with its hooks.
  template <class... Args>
  auto operator()(Args&&... args) {
    reducer_.before_forward();
    return call_module(model_, std::forward<Args>(args)...);
  }

  std::vector<NamedTensor> parameters() const { return model_.parameters(); }
  Model& module() { return model_; }

  // Backwards that run in its scope add to the gradients of this rank alone. What counts is where
  // backward runs, not forward.
  [[nodiscard]] NoSync no_sync() { return reducer_.no_sync(); }
  // Averages the gradients as they are now, after backwards without synchronization. Collective.
  void sync_gradients() { reducer_.sync_gradients(); }

  const DdpStats& stats() const { return reducer_.stats(); }
  const BucketPlan& plan() const { return reducer_.plan(); }

 private:
  Model& model_;
  DdpReducer reducer_;
};

// The factor for a rank's mean loss when ranks have different numbers of samples, so that the
// average over ranks is the mean over all samples: local * ranks / global.
inline double loss_scale(int64_t local, int64_t global, int ranks) {
  TENON_CHECK(local >= 0 && global >= local && global > 0 && ranks >= 1, "loss_scale",
              "wrong sample counts: given local ", local, ", global ", global, ", ranks ", ranks);
  return static_cast<double>(local) * ranks / static_cast<double>(global);
}

}  // namespace tenon
