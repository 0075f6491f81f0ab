// Rows of Philox numbers, 16 blocks side by side; the same numbers as philox() of core/random.h.
#pragma once

#include <cstdint>

#include "tenon/core/random.h"

namespace tenon::kernels::cpu {

// Numbers [begin, begin + n) of `key`; begin is a multiple of 4. Writes up to 63 numbers more, so
// `out` holds n rounded up to a multiple of 64.
void philox_row(const PhiloxKey& key, int64_t begin, int64_t n, uint32_t* out);

}  // namespace tenon::kernels::cpu
