// Activation checkpointing (Chen et al. 2016): a block keeps its inputs alone and runs again in
// backward, with the same random numbers, when the first of its saved tensors is asked for, up to
// the last one. The recomputed tensors feed the nodes that forward recorded: parameters see one
// backward, and their hooks run once.
#pragma once

#include <functional>

#include "tenon/core/tensor.h"

namespace tenon {

// body(x), keeping only x. `body` must do the same both times; what it captures must live until
// backward has run.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& body, const Tensor& x);

}  // namespace tenon
