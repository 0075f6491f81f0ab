#include "tenon/kernels/scalar_math.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

// Largest |got - wanted| / |wanted| over `count` points of [low, high]; where the result is
// subnormal, relative to the smallest normal number. `exponents`: the points are 2^t.
template <class T, class Got, class Wanted>
double worst_error(const Got& got, const Wanted& wanted, double low, double high,
                   bool exponents = false) {
  constexpr int kCount = 20000;
  double worst = 0;
  for (int i = 0; i <= kCount; ++i) {
    const double t = low + (high - low) * i / kCount;
    const T x = static_cast<T>(exponents ? std::exp2(t) : t);
    const long double exact = wanted(static_cast<long double>(x));
    const T result = got(x);
    if (std::isinf(static_cast<T>(exact))) {
      if (result != static_cast<T>(exact)) return INFINITY;
      continue;
    }
    const auto scale = std::max<long double>(std::abs(exact), std::numeric_limits<T>::min());
    const auto error = static_cast<double>(std::abs(result - exact) / scale);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

template <class T>
constexpr double kTolerance = sizeof(T) == 4 ? 5e-7 : 4e-16;

}  // namespace

TEMPLATE_TEST_CASE("scalar functions agree with libm", "", float, double) {
  using T = TestType;
  constexpr bool kFloat = sizeof(T) == 4;
  const auto check = [](const char* name, double error) {
    INFO(name);
    CHECK(error < kTolerance<T>);
  };
  const auto exp = [](T x) { return math::exp(x); };
  const auto log = [](T x) { return math::log(x); };
  const auto sqrt = [](T x) { return math::sqrt(x); };
  const auto sin = [](T x) { return math::sin(x); };
  const auto cos = [](T x) { return math::cos(x); };
  const auto tanh = [](T x) { return math::tanh(x); };
  const auto erf = [](T x) { return math::erf(x); };
  check("exp", worst_error<T>(exp, expl, kFloat ? -110 : -760, kFloat ? 95 : 715));
  check("exp near 0", worst_error<T>(exp, expl, -1, 1));
  check("log", worst_error<T>(log, logl, kFloat ? -149 : -1074, kFloat ? 128 : 1023, true));
  check("log near 1", worst_error<T>(log, logl, -0.6, 0.6, true));
  check("sqrt", worst_error<T>(sqrt, sqrtl, kFloat ? -149 : -1074, 100, true));
  check("sin", worst_error<T>(sin, sinl, -1e4, 1e4));
  check("sin near 0", worst_error<T>(sin, sinl, -60, 1, true));
  check("cos", worst_error<T>(cos, cosl, -1e4, 1e4));
  check("tanh", worst_error<T>(tanh, tanhl, -25, 25));
  check("tanh near 0", worst_error<T>(tanh, tanhl, -60, 1, true));
  check("erf", worst_error<T>(erf, erfl, -7, 7));
  check("erf near 0", worst_error<T>(erf, erfl, -60, 1, true));
}

TEMPLATE_TEST_CASE("scalar functions handle infinities, NaN and signed zeros", "", float, double) {
  using T = TestType;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  CHECK(math::exp(kInfinity) == kInfinity);
  CHECK(math::exp(-kInfinity) == 0);
  CHECK(math::exp(T(0)) == 1);
  CHECK(math::log(T(0)) == -kInfinity);
  CHECK(math::log(-T(0)) == -kInfinity);
  CHECK(math::log(kInfinity) == kInfinity);
  CHECK(math::log(T(1)) == 0);
  CHECK(std::isnan(math::log(T(-1))));
  CHECK(std::isnan(math::log(-kInfinity)));
  CHECK(std::isnan(math::sin(kInfinity)));
  CHECK(std::isnan(math::cos(-kInfinity)));
  CHECK(std::isnan(math::sin(T(0x1p31))));
  CHECK(math::tanh(kInfinity) == 1);
  CHECK(math::tanh(-kInfinity) == -1);
  CHECK(math::erf(kInfinity) == 1);
  CHECK(math::erf(-kInfinity) == -1);
  for (const T nan : {math::exp(kNan), math::log(kNan), math::sqrt(kNan), math::sin(kNan),
                      math::cos(kNan), math::tanh(kNan), math::erf(kNan)}) {
    CHECK(std::isnan(nan));
  }
  for (const T zero : {math::sin(-T(0)), math::tanh(-T(0)), math::erf(-T(0)), math::sqrt(-T(0))}) {
    CHECK(zero == 0);
    CHECK(std::signbit(zero));
  }
}

TEST_CASE("tanh and erf never leave [-1, 1]") {
  for (float x = -12; x < 12; x += 0.001f) {
    CHECK(std::abs(math::erf(x)) <= 1);
    CHECK(std::abs(math::tanh(x)) <= 1);
  }
}

}  // namespace tenon
