// Dropout: zeroes elements at random while training.
#pragma once

#include "tenon/autograd/ops/dropout.h"
#include "tenon/nn/child.h"

namespace tenon::nn {

class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {
    TENON_CHECK(p >= 0 && p < 1, "dropout", "bad probability: given ", p, ", wanted [0, 1)");
  }
  Tensor forward(const Tensor& x) { return dropout(x, p_, training()); }

 private:
  double p_;
};

}  // namespace tenon::nn
