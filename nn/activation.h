// Activation functions as modules, for Sequential.
#pragma once

#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/nn/child.h"

namespace tenon::nn {

template <Tensor (*function)(const Tensor&)>
class Pointwise : public Module {
 public:
  Tensor forward(const Tensor& x) { return function(x); }
};

using ReLU = Pointwise<relu>;
using GELU = Pointwise<gelu>;
using Tanh = Pointwise<tanh>;
using Sigmoid = Pointwise<sigmoid>;
using SiLU = Pointwise<silu>;

// (N, …) to (N, product of the rest).
class Flatten : public Module {
 public:
  Tensor forward(const Tensor& x) { return flatten(x, 1); }
};

}  // namespace tenon::nn
