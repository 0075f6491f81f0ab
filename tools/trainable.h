// A model as the training programs see it, whatever its type, alone or under DDP.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/distributed/ddp/ddp.h"

namespace tenon::tools {

class Trainable {
 public:
  virtual ~Trainable() = default;
  virtual Tensor forward(const Tensor& input) = 0;
  // Without the wrapper, for evaluation.
  virtual Tensor forward_alone(const Tensor& input) = 0;
  virtual Module& module() = 0;
  // While the result lives, backward adds to this rank's gradients alone.
  virtual std::optional<NoSync> no_sync() { return {}; }
  // Of the last backward that synchronized.
  virtual DdpStats stats() const { return {}; }
};

template <class Model>
class AloneTrainable : public Trainable {
 public:
  template <class... Args>
  explicit AloneTrainable(Args&&... args) : model_(std::forward<Args>(args)...) {}
  Tensor forward(const Tensor& input) override { return forward_alone(input); }
  Tensor forward_alone(const Tensor& input) override { return call_module(model_, input); }
  Model& module() override { return model_; }

 private:
  Model model_;
};

template <class Model>
class DdpTrainable : public AloneTrainable<Model> {
 public:
  template <class... Args>
  explicit DdpTrainable(const ProcessGroup& group, const DdpOptions& options, Args&&... args)
      : AloneTrainable<Model>(std::forward<Args>(args)...), ddp_(this->module(), group, options) {}
  Tensor forward(const Tensor& input) override { return ddp_(input); }
  std::optional<NoSync> no_sync() override { return ddp_.no_sync(); }
  DdpStats stats() const override { return ddp_.stats(); }

 private:
  Ddp<Model> ddp_;
};

// How a model is wrapped; without options it is not.
struct Parallelism {
  ProcessGroup group;
  std::optional<DdpOptions> ddp;
};

template <class Model, class... Args>
std::unique_ptr<Trainable> make_trainable(const Parallelism& parallelism, Args&&... args) {
  if (!parallelism.ddp) {
    return std::make_unique<AloneTrainable<Model>>(std::forward<Args>(args)...);
  }
  return std::make_unique<DdpTrainable<Model>>(parallelism.group, *parallelism.ddp,
                                               std::forward<Args>(args)...);
}

}  // namespace tenon::tools
