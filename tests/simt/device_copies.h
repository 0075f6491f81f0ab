// The emulator's twins of kernels/cuda/async_copy.h: a copy is made when the thread waits for it;
// until then its destination is NaN.
#pragma once

#include <cstdint>

#include "tenon/tests/simt/device.h"

namespace simt {

struct alignas(16) CopiedGroup {
  uint64_t words[2];
};

inline void copy_async(void* to, const void* from, bool exists, SIMT_SITE) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 != 0) {
    trap(SIMT_HERE);
  }
  *static_cast<CopiedGroup*>(to) = {{~uint64_t{0}, ~uint64_t{0}}};
  add_copy({to, exists ? from : nullptr});
}

template <int N>
void wait_copies() {
  AsyncCopy copy{};
  while (next_copy(N, copy)) {
    CopiedGroup& to = *static_cast<CopiedGroup*>(copy.to);
    to = copy.from == nullptr ? CopiedGroup{} : *static_cast<const CopiedGroup*>(copy.from);
  }
}

}  // namespace simt
