// TF32 in the emulator.
#pragma once

#include <bit>
#include <cstdint>

namespace simt {

// The nearest number with 10 bits of mantissa; ties to even. Infinities and NaN stay.
inline float to_tf32(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits += 0xfffu + (bits >> 13 & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

}  // namespace simt
