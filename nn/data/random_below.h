// A random whole number below a bound, keyed as core/random.h's numbers are: by (seed, stream,
// index) alone. Data sets draw from streams of their own.
#pragma once

#include <cstdint>

#include "tenon/core/random.h"

namespace tenon {

// These keep the numbers apart from those of the ranks' generators, whose streams are small.
inline constexpr uint64_t kOrderStreams = uint64_t{1} << 63;  // + epoch: the order of its samples
inline constexpr uint64_t kWindowStream = uint64_t{1} << 62;  // the first window of each epoch
inline constexpr uint64_t kWindowOrders = uint64_t{3} << 61;  // + epoch: the order of its windows

// In [0, bound); its bias of bound / 2^64 is far below what any run could see.
inline uint64_t random_below(uint64_t bound, uint64_t seed, uint64_t stream, uint64_t index) {
  const auto words = philox(seed, stream, index);
  __extension__ using Wide = unsigned __int128;
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<uint64_t>((Wide{bits} * bound) >> 64);
}

}  // namespace tenon
