#include "tenon/core/half.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// What the bits mean, computed from the definition of the format.
double value_of_bits(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// All 65536 bit patterns, and every point where rounding changes its mind. Returns the number of
// wrong results.
template <class Half>
int wrong_reads(int exponent_bits, int mantissa_bits) {
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    Half half;
    half.bits = static_cast<uint16_t>(i);
    const float value = half;
    const double wanted = value_of_bits(half.bits, exponent_bits, mantissa_bits);
    const bool same = std::isnan(wanted) ? std::isnan(value)
                                         : static_cast<double>(value) == wanted &&
                                               std::signbit(value) == std::signbit(wanted);
    const Half back(value);
    const bool round_trip =
        std::isnan(wanted) ? std::isnan(static_cast<float>(back)) : back.bits == half.bits;
    wrong += same && round_trip ? 0 : 1;
  }
  return wrong;
}

template <class Half>
int wrong_roundings(int exponent_bits, int mantissa_bits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto infinite = static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  int wrong = 0;
  for (int i = 0; i < infinite; ++i) {
    const auto below = static_cast<uint16_t>(i), above = static_cast<uint16_t>(i + 1);
    const double low = value_of_bits(below, exponent_bits, mantissa_bits);
    // One step past the largest number the format behaves as if the exponents went on.
    const double high = above == infinite ? 2 * low - value_of_bits(static_cast<uint16_t>(i - 1),
                                                                    exponent_bits, mantissa_bits)
                                          : value_of_bits(above, exponent_bits, mantissa_bits);
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const uint16_t even = (i & 1) == 0 ? below : above;
    for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      auto bits = [&](float value) {
        return static_cast<uint16_t>(Half(sign != 0 ? -value : value).bits ^ sign);
      };
      wrong += bits(middle) != even;
      wrong += bits(std::nextafter(middle, 0.0f)) != below;
      wrong += bits(std::nextafter(middle, infinity)) != above;
    }
  }
  return wrong;
}

TEST_CASE("half: every f16 pattern reads as its definition and converts back") {
  CHECK(wrong_reads<Float16>(5, 10) == 0);
}
TEST_CASE("half: every bf16 pattern reads as its definition and converts back") {
  CHECK(wrong_reads<BFloat16>(8, 7) == 0);
}
TEST_CASE("half: floats round to the nearest f16, ties to even") {
  CHECK(wrong_roundings<Float16>(5, 10) == 0);
}
TEST_CASE("half: floats round to the nearest bf16, ties to even") {
  CHECK(wrong_roundings<BFloat16>(8, 7) == 0);
}

TEST_CASE("half: numbers out of range become infinite and NaN stays NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(Float16(65519.0f)) == 65504.0f);
  CHECK(static_cast<float>(Float16(65520.0f)) == infinity);
  CHECK(static_cast<float>(Float16(-1e30f)) == -infinity);
  CHECK(static_cast<float>(Float16(1e-30f)) == 0.0f);
  CHECK(static_cast<float>(BFloat16(std::numeric_limits<float>::max())) == infinity);
  CHECK(static_cast<float>(BFloat16(-infinity)) == -infinity);
  // Signalling NaNs with all payload bits in the lower half must not round to infinity.
  const float payload = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(static_cast<float>(BFloat16(payload))));
  CHECK(std::isnan(static_cast<float>(Float16(payload))));
  CHECK(std::signbit(static_cast<float>(BFloat16(-0.0f))));
  CHECK(std::signbit(static_cast<float>(Float16(-0.0f))));
}

}  // namespace
}  // namespace tenon
