// Slots of fused optimizer steps over many tensors: one pass over parameter, gradient and state.
// parameters[i], gradients[i] and states[i] have one shape and are contiguous; a gradient may be of
// a wider dtype than its parameter; states have the parameter's compute dtype. Element i of a
// result depends on element i of the inputs only.
#pragma once

#include <vector>

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

using TensorList = std::vector<Tensor>;

struct SgdStep {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // momentum buffers hold nothing yet: they become the gradient
};
// momentum is empty when momentum == 0.
inline constinit KernelSlot<void(const TensorList& parameters, const TensorList& gradients,
                                 const TensorList& momentum, const SgdStep&)>
    sgd{"sgd"};

struct AdamStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^t
  bool decoupled = false;                   // AdamW: weight decay outside the gradient
};
inline constinit KernelSlot<void(const TensorList& parameters, const TensorList& gradients,
                                 const TensorList& mean, const TensorList& variance,
                                 const AdamStep&)>
    adam{"adam"};

struct AdadeltaStep {
  double lr = 0, rho = 0, eps = 0, weight_decay = 0;
};
inline constinit KernelSlot<void(const TensorList& parameters, const TensorList& gradients,
                                 const TensorList& square_average, const TensorList& delta_average,
                                 const AdadeltaStep&)>
    adadelta{"adadelta"};

inline const KernelSlotBase* const kOptimizerSlots[] = {&sgd, &adam, &adadelta};

}  // namespace tenon::kernels
