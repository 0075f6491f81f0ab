#include "tenon/kernels/cuda/precision.h"

#include <cstdlib>

namespace tenon::kernels::cuda {

bool tf32_allowed() {
  static const bool allowed = [] {
    const char* text = std::getenv("TENON_TF32");
    return text != nullptr && text[0] == '1';
  }();
  return allowed;
}

}  // namespace tenon::kernels::cuda
