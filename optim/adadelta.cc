#include "tenon/optim/adadelta.h"

#include "tenon/kernels/optimizer.h"
#include "tenon/optim/check_options.h"

namespace tenon {

Adadelta::Adadelta(std::vector<NamedTensor> parameters, AdadeltaOptions options)
    : Adadelta(one_group(std::move(parameters)), options) {}

Adadelta::Adadelta(std::vector<ParamGroup> groups, AdadeltaOptions options)
    : Optimizer("adadelta", std::move(groups), {options.lr, options.weight_decay},
                {"square_average", "delta_average"}),
      options_(options) {
  check_below_one("adadelta", "rho", options.rho);
  check_not_negative("adadelta", "eps", options.eps);
}

void Adadelta::update(const Batch& batch) {
  kernels::adadelta(batch.device(), batch.parameters, batch.gradients, batch.states[0],
                    batch.states[1],
                    {.lr = batch.rates.lr,
                     .rho = options_.rho,
                     .eps = options_.eps,
                     .weight_decay = batch.rates.weight_decay});
}

}  // namespace tenon
