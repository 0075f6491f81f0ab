// Random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11). Number i of a stream depends on (seed, stream, i) alone, so every device and any split
// over threads draws the same numbers.
#pragma once

#include <array>
#include <cstdint>

#include "tenon/core/host_device.h"

namespace tenon {

// The four 32-bit numbers of block `block` of (seed, stream).
TENON_HD inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t block) {
  uint32_t x0 = static_cast<uint32_t>(block), x1 = static_cast<uint32_t>(block >> 32);
  uint32_t x2 = static_cast<uint32_t>(stream), x3 = static_cast<uint32_t>(stream >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * x0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * x2;
    const uint32_t y0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key0;
    const uint32_t y2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x0 = y0;
    x1 = static_cast<uint32_t>(product1);
    x2 = y2;
    x3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {x0, x1, x2, x3};
}

// Uniform in [0, 1) with 24 bits.
TENON_HD inline float uniform_from_bits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// Where a kernel reads its numbers: number i of the call is number i % 4 of block offset + i / 4.
struct PhiloxKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t offset = 0;
};

// The position in one stream of random numbers. Saved and restored whole for an exact resume.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0, uint64_t stream = 0) : next_{seed, stream, 0} {}
  // The key for `count` numbers; the generator moves past them.
  PhiloxKey reserve(int64_t count) {
    const PhiloxKey key = next_;
    next_.offset += static_cast<uint64_t>((count + 3) / 4);
    return key;
  }
  PhiloxKey state() const { return next_; }
  void set_state(const PhiloxKey& state) { next_ = state; }

 private:
  PhiloxKey next_;
};

}  // namespace tenon
