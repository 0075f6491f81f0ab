// Storage formats of 16 bits: IEEE binary16 (Float16) and bfloat16 (BFloat16).
// They convert to and from float with round-to-nearest-even and have no arithmetic of their own:
// kernels compute in float. The conversions are branch-free so that loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

#include "tenon/core/host_device.h"

namespace tenon {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  TENON_HD BFloat16(float value)
      : bits(from_float(value)) {}  // NOLINT: implicit as for built-in types
  TENON_HD operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

  TENON_HD static uint16_t from_float(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (x >> 16) | 0x40u;
    return static_cast<uint16_t>((x & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
  }
};

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  TENON_HD Float16(float value)
      : bits(from_float(value)) {}  // NOLINT: implicit as for built-in types
  TENON_HD operator float() const { return to_float(bits); }

  TENON_HD static uint16_t from_float(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (x >> 16) & 0x8000u;
    const uint32_t magnitude = x & 0x7fffffffu;
    // Normal halves: rebias the exponent, round the 13 bits that fall off to nearest even.
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal halves: adding 0.5 lets the float adder do shift and rounding.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t infinity_or_nan = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    return static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? infinity_or_nan : finite));
  }
  TENON_HD static float to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = half & 0x7c00u;
    const uint32_t shifted = static_cast<uint32_t>(half & 0x7fffu) << 13;
    const uint32_t normal = shifted + 0x38000000u;
    const uint32_t infinity_or_nan = shifted + 0x70000000u;
    // Subnormal: value = mantissa * 2^-24, exact in float.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(static_cast<float>(half & 0x3ffu) * 0x1p-24f);
    const uint32_t finite = exponent == 0 ? subnormal : normal;
    return std::bit_cast<float>(sign | (exponent == 0x7c00u ? infinity_or_nan : finite));
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace tenon
