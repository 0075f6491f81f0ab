// State by name: copying a set of named tensors into another one of the same names, shapes and
// dtypes. State dicts of modules and of optimizers are loaded with it.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

// Copies the values of `from` into the tensors of `into` (both contiguous) with the same names, in
// any order. If a name is missing, unexpected or twice there, or a shape or dtype differs, one
// bad_data Error beginning with `op` lists all of it and nothing is changed.
void copy_named_tensors(const char* op, const std::vector<NamedTensor>& from,
                        const std::vector<NamedTensor>& into);

}  // namespace tenon
