// From the bits of Philox to numbers: what the random kernels of all devices compute, to the bit.
#pragma once

#include <cmath>
#include <limits>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/random.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels {

// The largest T below `limit`.
template <class T>
T largest_below(double limit) {
  T value = static_cast<T>(static_cast<Compute<T>>(limit));
  if (static_cast<double>(static_cast<Compute<T>>(value)) < limit) return value;
  if constexpr (sizeof(T) == 2) {
    const bool negative = (value.bits & 0x8000u) != 0;
    const bool zero = (value.bits & 0x7fffu) == 0;
    value.bits = static_cast<uint16_t>(zero ? 0x8001u : negative ? value.bits + 1 : value.bits - 1);
    return value;
  } else {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

// Uniform in [low, high), for elements of T.
template <class T>
struct UniformNumber {
  using C = Compute<T>;
  UniformNumber(double low, double high)
      : start(static_cast<C>(low)),
        width(static_cast<C>(high - low)),
        limit(static_cast<C>(largest_below<T>(high))) {}
  // Rounding must not reach `high`, which is outside the range.
  TENON_HD T operator()(uint32_t bits) const {
    const C value = start + width * static_cast<C>(uniform_from_bits(bits));
    return static_cast<T>(value < limit ? value : limit);
  }

  C start, width, limit;
};

// Two normal numbers from two uniform ones (Box and Muller, 1958).
template <class C>
struct NormalPair {
  NormalPair(double mean, double stddev)
      : center(static_cast<C>(mean)), spread(static_cast<C>(stddev)) {}
  [[gnu::always_inline]] TENON_HD void operator()(uint32_t bits0, uint32_t bits1, C& first,
                                                  C& second) const {
    // 1 - u lies in (0, 1], where log is finite.
    const C u = C(1) - static_cast<C>(uniform_from_bits(bits0));
    const C angle = C(6.283185307179586) * static_cast<C>(uniform_from_bits(bits1));
    const C radius = math::sqrt(C(-2) * math::log(u));
    first = center + spread * (radius * math::cos(angle));
    second = center + spread * (radius * math::sin(angle));
  }

  C center, spread;
};

// What dropout with probability p multiplies the kept elements by.
inline double dropout_factor(double p) { return p < 1 ? 1 / (1 - p) : 0; }
// uniform_from_bits(bits) >= p in integers: (bits >> 8) >= dropout_threshold(p).
inline uint32_t dropout_threshold(double p) {
  return static_cast<uint32_t>(std::ceil(static_cast<float>(p) * 0x1p24f));
}

}  // namespace tenon::kernels
