// The results of warp functions, from what all lanes brought.
#include "tenon/tests/simt/device.h"

namespace simt::warp {

unsigned compute_nothing(const WarpCall*, unsigned, uint64_t*) { return 0; }

unsigned compute_shuffle(const WarpCall* lanes, unsigned present, uint64_t* results) {
  unsigned in_vain = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) == 0) continue;
    const unsigned source = lanes[i].argument;
    if ((present >> source & 1u) != 0) {
      results[i] = lanes[source].value;
    } else {
      in_vain |= 1u << i;
    }
  }
  return in_vain;
}

unsigned compute_ballot(const WarpCall* lanes, unsigned present, uint64_t* results) {
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) != 0 && lanes[i].value != 0) votes |= 1u << i;
  }
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) != 0) results[i] = votes;
  }
  return 0;
}

unsigned compute_match(const WarpCall* lanes, unsigned present, uint64_t* results) {
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) == 0) continue;
    unsigned equal = 0;
    for (unsigned j = 0; j < 32; ++j) {
      if ((present >> j & 1u) != 0 && lanes[j].value == lanes[i].value) equal |= 1u << j;
    }
    results[i] = equal;
  }
  return 0;
}

}  // namespace simt::warp
