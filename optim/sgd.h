// Stochastic gradient descent with momentum, as PyTorch defines it:
//   g = gradient + weight_decay p;  m = momentum m + (1 - dampening) g (the first time m = g)
//   p -= lr m, or lr (g + momentum m) with nesterov, or lr g without momentum
#pragma once

#include "tenon/optim/optimizer.h"

namespace tenon {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedTensor> parameters, SgdOptions options = {});
  explicit Sgd(std::vector<ParamGroup> groups, SgdOptions options = {});

 private:
  void update(const Batch& batch) override;

  SgdOptions options_;
};

}  // namespace tenon
