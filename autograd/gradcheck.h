// Compares recorded gradients with numeric ones in f64: central differences of a random projection
// of the output, element by element.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

struct GradcheckOptions {
  double step = 1e-6;
  double tolerance = 1e-6;  // |numeric - recorded| <= tolerance * max(1, |numeric|)
  uint64_t seed = 1;        // of the projection
};

// Inputs are f64; those that require a gradient are checked. Throws Error with the first
// difference: input, element, both values.
void gradcheck(const char* name, const std::function<Tensor(const std::vector<Tensor>&)>& function,
               const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace tenon
