#include "tenon/optim/adam.h"

#include <cmath>

#include "tenon/kernels/optimizer.h"
#include "tenon/optim/check_options.h"

namespace tenon {

Adam::Adam(std::vector<NamedTensor> parameters, AdamOptions options)
    : Adam(one_group(std::move(parameters)), options) {}

Adam::Adam(std::vector<ParamGroup> groups, AdamOptions options)
    : Adam("adam", std::move(groups), options, false) {}

Adam::Adam(const char* name, std::vector<ParamGroup> groups, AdamOptions options, bool decoupled)
    : Optimizer(name, std::move(groups), {options.lr, options.weight_decay}, {"mean", "variance"}),
      options_(options),
      decoupled_(decoupled) {
  check_below_one(name, "beta1", options.beta1);
  check_below_one(name, "beta2", options.beta2);
  check_not_negative(name, "eps", options.eps);
}

void Adam::update(const Batch& batch) {
  const auto step = static_cast<double>(batch.step);
  kernels::adam(batch.device(), batch.parameters, batch.gradients, batch.states[0], batch.states[1],
                {.lr = batch.rates.lr,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .eps = options_.eps,
                 .weight_decay = batch.rates.weight_decay,
                 .correction1 = 1 - std::pow(options_.beta1, step),
                 .correction2 = 1 - std::pow(options_.beta2, step),
                 .decoupled = decoupled_});
}

}  // namespace tenon
