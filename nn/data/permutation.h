// A random order of the numbers below a size, computed number by number instead of stored: a
// Feistel network over the next power of four, walked until it falls below the size (Black and
// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
#pragma once

#include <cstdint>

#include "tenon/core/random.h"

namespace tenon {

class Permutation {
 public:
  // Of [0, size), keyed by (seed, stream).
  Permutation(uint64_t size, uint64_t seed, uint64_t stream)
      : size_(size), seed_(seed), stream_(stream) {
    while (half_bits_ < 32 && uint64_t{1} << (2 * half_bits_) < size) ++half_bits_;
  }

  // Element `index`, which is below the size.
  uint64_t operator[](uint64_t index) const {
    do {
      index = mixed(index);
    } while (index >= size_);
    return index;
  }

 private:
  // A permutation of [0, 4^half_bits).
  uint64_t mixed(uint64_t index) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = index >> half_bits_, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t old_left = left;
      left = right;
      right = (old_left ^ philox(seed_, stream_, round << 32 | right)[0]) & mask;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_, seed_, stream_;
  int half_bits_ = 1;
};

}  // namespace tenon
