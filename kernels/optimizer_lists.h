// What the optimizer kernels of all devices ask of their lists of tensors.
#pragma once

#include <initializer_list>

#include "tenon/kernels/optimizer.h"

namespace tenon::kernels {

// An Error naming `op` unless every parameter has a gradient and states of its shape, all are
// contiguous and the states have the parameter's compute dtype.
void check_lists(const char* op, const TensorList& parameters, const TensorList& gradients,
                 std::initializer_list<const TensorList*> states);

}  // namespace tenon::kernels
