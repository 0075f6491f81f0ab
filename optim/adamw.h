// AdamW (Loshchilov and Hutter 2019): Adam with p -= lr weight_decay p apart from the gradient.
#pragma once

#include "tenon/optim/adam.h"

namespace tenon {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters, AdamWOptions options = {})
      : AdamW(one_group(std::move(parameters)), options) {}
  explicit AdamW(std::vector<ParamGroup> groups, AdamWOptions options = {})
      : Adam("adamw", std::move(groups),
             {options.lr, options.beta1, options.beta2, options.eps, options.weight_decay}, true) {}
};

}  // namespace tenon
