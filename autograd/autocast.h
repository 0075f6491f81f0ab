// The dtype in which layers compute that have none of their own (Module::set_compute_dtype), per
// thread:
//   { const Autocast bf16(DType::bf16); loss = cross_entropy(model(x), y); }
//   loss.backward();
// Parameters and their gradients keep their dtype. Recomputation in backward takes the scope of
// forward.
#pragma once

#include <optional>

#include "tenon/core/dtype.h"

namespace tenon {

std::optional<DType> autocast_dtype();

class Autocast {
 public:
  // f32, f64, f16 or bf16; nothing: none, within another scope too.
  explicit Autocast(std::optional<DType> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> previous_;
};

}  // namespace tenon
