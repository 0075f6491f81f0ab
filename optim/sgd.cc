#include "tenon/optim/sgd.h"

#include "tenon/kernels/optimizer.h"
#include "tenon/optim/check_options.h"

namespace tenon {

Sgd::Sgd(std::vector<NamedTensor> parameters, SgdOptions options)
    : Sgd(one_group(std::move(parameters)), options) {}

Sgd::Sgd(std::vector<ParamGroup> groups, SgdOptions options)
    : Optimizer("sgd", std::move(groups), {options.lr, options.weight_decay},
                options.momentum == 0 ? std::vector<std::string>{}
                                      : std::vector<std::string>{"momentum"}),
      options_(options) {
  check_not_negative("sgd", "momentum", options.momentum);
  check_not_negative("sgd", "dampening", options.dampening);
  TENON_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0), "sgd",
              "bad nesterov: given momentum ", options.momentum, " and dampening ",
              options.dampening, ", wanted momentum > 0 and dampening 0");
}

void Sgd::update(const Batch& batch) {
  static const kernels::TensorList kNone;
  kernels::sgd(batch.device(), batch.parameters, batch.gradients,
               batch.states.empty() ? kNone : batch.states[0],
               {.lr = batch.rates.lr,
                .momentum = options_.momentum,
                .dampening = options_.dampening,
                .weight_decay = batch.rates.weight_decay,
                .nesterov = options_.nesterov,
                .first = batch.step == 1});
}

}  // namespace tenon
