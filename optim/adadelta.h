// Adadelta (Zeiler 2012):
//   g = gradient + weight_decay p;  s = rho s + (1 - rho) g^2
//   d = sqrt(u + eps) / sqrt(s + eps) g;  u = rho u + (1 - rho) d^2;  p -= lr d
#pragma once

#include "tenon/optim/optimizer.h"

namespace tenon {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
};

class Adadelta : public Optimizer {
 public:
  explicit Adadelta(std::vector<NamedTensor> parameters, AdadeltaOptions options = {});
  explicit Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions options = {});

 private:
  void update(const Batch& batch) override;

  AdadeltaOptions options_;
};

}  // namespace tenon
