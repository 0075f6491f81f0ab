// Adam (Kingma and Ba 2015):
//   g = gradient + weight_decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
// adamw.h has the variant whose weight decay is apart from the gradient.
#pragma once

#include "tenon/optim/optimizer.h"

namespace tenon {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<NamedTensor> parameters, AdamOptions options = {});
  explicit Adam(std::vector<ParamGroup> groups, AdamOptions options = {});

 protected:
  Adam(const char* name, std::vector<ParamGroup> groups, AdamOptions options, bool decoupled);

 private:
  void update(const Batch& batch) override;

  AdamOptions options_;
  bool decoupled_;
};

}  // namespace tenon
