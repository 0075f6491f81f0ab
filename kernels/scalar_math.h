// tenon::math: the elementary functions that kernels use instead of libm's, for float and double.
//
// They are branch-free and inlined, so that compilers vectorise the loops over them and an element
// has the same bits in a vector and in the rest of a loop, on any split of the work. Relative
// errors are below 5e-7 for float and 4e-16 for double; infinities, NaN, signed zeros and
// subnormal numbers are as in libm. sin and cos take |x| <= 2^30 and give NaN beyond. The
// polynomials are near-minimax fits.
#pragma once

#include <cmath>
#include <cstdint>

#include "tenon/core/host_device.h"

namespace tenon::math {
namespace detail {

// x * y + z, rounded once where the hardware does it.
TENON_HD inline float multiply_add(float x, float y, float z) {
#if defined(__CUDA_ARCH__)
  return ::fmaf(x, y, z);
#elif defined(__FMA__)
  return __builtin_fmaf(x, y, z);
#else
  return x * y + z;
#endif
}
TENON_HD inline double multiply_add(double x, double y, double z) {
#if defined(__CUDA_ARCH__)
  return ::fma(x, y, z);
#elif defined(__FMA__)
  return __builtin_fma(x, y, z);
#else
  return x * y + z;
#endif
}

// first + x * (second + x * (…)).
template <class T>
[[gnu::always_inline]] TENON_HD inline T polynomial(T, T first) {
  return first;
}
template <class T, class... Rest>
[[gnu::always_inline]] TENON_HD inline T polynomial(T x, T first, Rest... rest) {
  return multiply_add(x, polynomial(x, T(rest)...), first);
}

template <class T>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr Bits bias = 127;
  static constexpr Bits sign = 0x80000000u;
  static constexpr Bits infinity = 0x7f800000u;
  static constexpr Bits sqrt_half = 0x3f3504f3u;
  static constexpr float round_magic = 0x1.8p23f;  // x + magic - magic rounds to an integer
  static constexpr float smallest_normal = 0x1p-126f;
  // ln 2 in two parts; products of the first with small integers are exact.
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.12194440055e-4f;
  static constexpr float exp_low = -105;  // exp gives 0 below and infinity above
  static constexpr float exp_high = 89;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr Bits bias = 1023;
  static constexpr Bits sign = 0x8000000000000000u;
  static constexpr Bits infinity = 0x7ff0000000000000u;
  static constexpr Bits sqrt_half = 0x3fe6a09e667f3bcdu;
  static constexpr double round_magic = 0x1.8p52;
  static constexpr double smallest_normal = 0x1p-1022;
  static constexpr double ln2_high = 0.6931471803691238;
  static constexpr double ln2_low = 1.9082149292705877e-10;
  static constexpr double exp_low = -746;
  static constexpr double exp_high = 710;
};

template <class T>
[[gnu::always_inline]] TENON_HD inline typename Format<T>::Bits bits_of(T x) {
  return __builtin_bit_cast(typename Format<T>::Bits, x);
}
template <class T>
[[gnu::always_inline]] TENON_HD inline T from_bits(typename Format<T>::Bits bits) {
  return __builtin_bit_cast(T, bits);
}
template <class T>
[[gnu::always_inline]] TENON_HD inline T absolute(T x) {
  return from_bits<T>(bits_of(x) & ~Format<T>::sign);
}
template <class T>
[[gnu::always_inline]] TENON_HD inline T with_sign_of(T magnitude, T x) {
  return from_bits<T>(bits_of(magnitude) | (bits_of(x) & Format<T>::sign));
}

// x = n ln 2 + rest with |rest| <= ln 2 / 2; n as a number and as two's complement bits.
template <class T>
struct ExpParts {
  T rest;
  typename Format<T>::Bits n;
};
template <class T>
[[gnu::always_inline]] TENON_HD inline ExpParts<T> split_exp(T x) {
  using F = Format<T>;
  const T shifted = multiply_add(x, T(1.4426950408889634), F::round_magic);
  const T n = shifted - F::round_magic;
  const T rest = multiply_add(-n, F::ln2_low, multiply_add(-n, F::ln2_high, x));
  return {rest, bits_of(shifted) - bits_of(F::round_magic)};
}
// 2^n for a normal result.
template <class T>
[[gnu::always_inline]] TENON_HD inline T power_of_two(typename Format<T>::Bits n) {
  return from_bits<T>((n + Format<T>::bias) << Format<T>::mantissa_bits);
}
// exp(x) - 1 for |x| <= ln 2 / 2.
[[gnu::always_inline]] TENON_HD inline float expm1_near_0(float x) {
  const float tail = polynomial(x, 0.5f, 0.1666666668f, 0.04166645681f, 0.008333310024f,
                                0.001393454193f, 0.0001989198131f);
  return multiply_add(x * x, tail, x);
}
[[gnu::always_inline]] TENON_HD inline double expm1_near_0(double x) {
  const double tail = polynomial(
      x, 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333325544, 0.0013888888888883327,
      0.00019841269876864356, 2.4801587327007187e-05, 2.755725283351691e-06, 2.75572718102198e-07,
      2.5106274733573296e-08, 2.0915442297780116e-09);
  return multiply_add(x * x, tail, x);
}

// log(1 + f) - f for 1 + f between sqrt(1/2) and sqrt(2).
[[gnu::always_inline]] TENON_HD inline float log1p_tail(float f) {
  const float square = f * f;
  const float cubic =
      polynomial(f, 0.3333333118f, -0.2499999696f, 0.2000071575f, -0.1666780232f, 0.1424905765f,
                 -0.1242568733f, 0.1168541992f, -0.1147973385f, 0.06971611471f);
  return multiply_add(square * f, cubic, -0.5f * square);
}
// By way of s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + s^2 R(s^2)).
[[gnu::always_inline]] TENON_HD inline double log1p_tail(double f) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double series = polynomial(z, 0.6666666666666666, 0.40000000000001007, 0.2857142857072325,
                                   0.22222222409750114, 0.18181793732111753, 0.15386342449645143,
                                   0.13266048812203002, 0.131148348695975);
  const double half_square = 0.5 * f * f;
  return s * multiply_add(z, series, half_square) - half_square;
}

// x = n pi/2 + rest; NaN where |x| is too large.
struct QuarterTurns {
  double rest;
  uint64_t n;
};
[[gnu::always_inline]] TENON_HD inline QuarterTurns quarter_turns(double x) {
  using F = Format<double>;
  const double shifted = multiply_add(x, 0.6366197723675814, F::round_magic);
  const double n = shifted - F::round_magic;
  // pi/2 in three parts of 33, 33 and 53 bits.
  double rest = multiply_add(-n, 1.5707963267341256, x);
  rest = multiply_add(-n, 6.077100506303966e-11, rest);
  rest = multiply_add(-n, 2.0222662487959506e-21, rest);
  return {absolute(x) <= 0x1p30 ? rest : from_bits<double>(F::infinity | 1u), bits_of(shifted)};
}
// sin(x + turns pi/2) after the reduction.
[[gnu::always_inline]] TENON_HD inline double sine_of(double x, uint64_t turns) {
  const QuarterTurns parts = quarter_turns(x);
  const double r = parts.rest;
  const double z = r * r;
  const double slope =
      polynomial(z, -0.16666666666666666, 0.008333333333330827, -0.0001984126983657571,
                 2.755731600817155e-06, -2.5051112272573243e-08, 1.5916726193889336e-10);
  const double sine = r * multiply_add(z, slope, 1.0);  // a product: keeps the sign of zero
  const double cosine = multiply_add(
      z * z,
      polynomial(z, 0.041666666666666664, -0.0013888888888887322, 2.4801587298651292e-05,
                 -2.755731721268659e-07, 2.0876134024090145e-09, -1.1381754653662937e-11),
      1.0 - 0.5 * z);
  const uint64_t quadrant = parts.n + turns;
  const double value = (quadrant & 1u) != 0 ? cosine : sine;
  return from_bits<double>(bits_of(value) ^ ((quadrant & 2u) << 62));
}

}  // namespace detail

template <class T>
[[gnu::always_inline]] TENON_HD inline T exp(T x) {
  using F = detail::Format<T>;
  using Bits = typename F::Bits;
  const T above = x < F::exp_low ? F::exp_low : x;  // both selections keep NaN
  const auto parts = detail::split_exp(above > F::exp_high ? F::exp_high : above);
  // Two factors: 2^n itself may be subnormal or beyond the range.
  const Bits half = ((parts.n + 2 * F::bias) >> 1) - F::bias;
  const T grown = (T(1) + detail::expm1_near_0(parts.rest)) * detail::power_of_two<T>(half);
  return grown * detail::power_of_two<T>(parts.n - half);
}

// exp of a number that is not positive (but for rounding); 0 where the result would be subnormal.
template <class T>
[[gnu::always_inline]] TENON_HD inline T exp_not_positive(T x) {
  constexpr T kLow = sizeof(T) == 4 ? T(-87) : T(-708);
  const auto parts = detail::split_exp(x < kLow ? kLow : x);  // keeps NaN
  const T value = (T(1) + detail::expm1_near_0(parts.rest)) * detail::power_of_two<T>(parts.n);
  return x < kLow ? T(0) : value;
}

template <class T>
[[gnu::always_inline]] TENON_HD inline T log(T x) {
  using F = detail::Format<T>;
  using Bits = typename F::Bits;
  constexpr T kGrow = sizeof(T) == 4 ? T(0x1p24) : T(0x1p53);
  const bool small = x < F::smallest_normal;
  const Bits bits = detail::bits_of(small ? x * kGrow : x);
  const Bits one = F::bias << F::mantissa_bits;
  const Bits moved = bits + (one - F::sqrt_half);
  // The exponent as a number: its biased bits under those of 2^mantissa.
  const T biased =
      detail::from_bits<T>((moved >> F::mantissa_bits) | detail::bits_of(T(F::round_magic / 1.5))) -
      T(F::round_magic / 1.5);
  const T offset = T(F::bias) + (small ? T(F::mantissa_bits + 1) : T(0));
  const T exponent = biased - offset;
  const Bits mantissa_mask = (Bits{1} << F::mantissa_bits) - 1;
  const T f = detail::from_bits<T>((moved & mantissa_mask) + F::sqrt_half) - T(1);
  const T low = detail::multiply_add(exponent, F::ln2_low, detail::log1p_tail(f));
  const T value = detail::multiply_add(exponent, F::ln2_high, low + f);
  const T infinity = detail::from_bits<T>(F::infinity);
  const T positive = x < infinity ? value : x;  // infinity and NaN stay
  const T quiet_nan = detail::from_bits<T>(F::infinity | (F::infinity >> 1));
  return x > T(0) ? positive : (x == T(0) ? -infinity : (x < T(0) ? quiet_nan : x));
}

// Correctly rounded everywhere; compilers turn it into the instruction.
TENON_HD inline float sqrt(float x) { return std::sqrt(x); }
TENON_HD inline double sqrt(double x) { return std::sqrt(x); }

template <class T>
[[gnu::always_inline]] TENON_HD inline T sin(T x) {
  return static_cast<T>(detail::sine_of(static_cast<double>(x), 0));
}
template <class T>
[[gnu::always_inline]] TENON_HD inline T cos(T x) {
  return static_cast<T>(detail::sine_of(static_cast<double>(x), 1));
}

// Rational fits up to where the function rounds to 1.
[[gnu::always_inline]] TENON_HD inline float tanh(float x) {
  const float size = detail::absolute(x);
  const float limited = size > 9.01f ? 9.01f : size;
  const float z = limited * limited;
  const float above = detail::polynomial(z, 1.0f, 0.13680403f, 0.0038689391f, 2.8019793e-05f,
                                         3.061467e-08f, -1.2225443e-11f);
  const float below =
      detail::polynomial(z, 1.0f, 0.47013736f, 0.027248077f, 0.0003939709f, 1.2882282e-06f);
  const float value = limited * above / below;
  return detail::with_sign_of(value > 1.0f ? 1.0f : value, x);
}
[[gnu::always_inline]] TENON_HD inline float erf(float x) {
  const float size = detail::absolute(x);
  const float limited = size > 3.93f ? 3.93f : size;
  const float z = limited * limited;
  const float above = detail::polynomial(z, 1.1283791f, 0.19077103f, 0.052788522f, 0.0037790323f,
                                         0.00028479125f, 2.0420182e-06f);
  const float below = detail::polynomial(z, 1.0f, 0.50239915f, 0.114252165f, 0.014996298f,
                                         0.0011650639f, 3.8003644e-05f);
  const float value = limited * above / below;
  return detail::with_sign_of(value > 1.0f ? 1.0f : value, x);
}
// e / (e + 2) with e = exp(2 |x|) - 1, which is exact enough near 0 as well.
[[gnu::always_inline]] TENON_HD inline double tanh(double x) {
  const double size = detail::absolute(x);
  const auto parts = detail::split_exp(2.0 * (size > 20.0 ? 20.0 : size));
  const double power = detail::power_of_two<double>(parts.n);
  const double e = detail::multiply_add(power, detail::expm1_near_0(parts.rest), power - 1.0);
  return detail::with_sign_of(e / (e + 2.0), x);
}
// A series below 1; above, 1 - exp(-x^2) G / (1 + 2 x) with G fitted over (x - 4) / (x + 4).
[[gnu::always_inline]] TENON_HD inline double erf(double x) {
  const double size = detail::absolute(x);
  const double z = size * size;
  const double series = detail::polynomial(
      z, 1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
      0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
      1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08,
      -1.1372848856791674e-09, 5.957176147748911e-11);
  const double limited = size > 6.0 ? 6.0 : size;
  const double t = (limited - 4.0) / (limited + 4.0);
  const double scaled = detail::polynomial(
      t, 1.2329951186255526, -0.13962111684056236, 0.01537965210257007, 0.0680970542544652,
      -0.1010390660290445, 0.0937328350448936, -0.06633036611671828, 0.037167512486740814,
      -0.016197734350641032, 0.005032040312285165, -0.0007575424899723285, -0.00019943791115473986,
      0.00014780980824831742, -3.1982217080725404e-05, -2.0987219091222924e-05);
  const double far = 1.0 - exp(-limited * limited) * scaled / (1.0 + 2.0 * limited);
  return detail::with_sign_of(size < 1.0 ? size * series : far, x);
}

}  // namespace tenon::math
