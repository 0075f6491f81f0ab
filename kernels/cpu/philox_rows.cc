#include "tenon/kernels/cpu/philox_rows.h"

namespace tenon::kernels::cpu {
namespace {

constexpr int kLanes = 16;

// philox() for blocks block, block + 1, …; lanes are the inner loops.
void philox_lanes(uint64_t seed, uint64_t stream, uint64_t block, uint32_t* out) {
  alignas(64) uint32_t x0[kLanes], x1[kLanes], x2[kLanes], x3[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t counter = block + static_cast<uint64_t>(lane);
    x0[lane] = static_cast<uint32_t>(counter);
    x1[lane] = static_cast<uint32_t>(counter >> 32);
    x2[lane] = static_cast<uint32_t>(stream);
    x3[lane] = static_cast<uint32_t>(stream >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * x0[lane];
      const uint64_t product1 = uint64_t{0xCD9E8D57u} * x2[lane];
      x0[lane] = static_cast<uint32_t>(product1 >> 32) ^ x1[lane] ^ key0;
      x2[lane] = static_cast<uint32_t>(product0 >> 32) ^ x3[lane] ^ key1;
      x1[lane] = static_cast<uint32_t>(product1);
      x3[lane] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    out[4 * lane] = x0[lane];
    out[4 * lane + 1] = x1[lane];
    out[4 * lane + 2] = x2[lane];
    out[4 * lane + 3] = x3[lane];
  }
}

}  // namespace

void philox_row(const PhiloxKey& key, int64_t begin, int64_t n, uint32_t* out) {
  for (int64_t i = 0; i < n; i += 4 * kLanes) {
    philox_lanes(key.seed, key.stream, key.offset + static_cast<uint64_t>((begin + i) / 4),
                 out + i);
  }
}

}  // namespace tenon::kernels::cpu
