// The look-up table of learned vectors.
#pragma once

#include "tenon/nn/child.h"

namespace tenon::nn {

// ids (…) i64 or i32 in [0, count): (…, features).
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t features);
  Tensor forward(const Tensor& ids);

  Parameter weight;
};

}  // namespace tenon::nn
