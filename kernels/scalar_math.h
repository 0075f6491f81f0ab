// tenon::math: the elementary functions that kernels use instead of libm's.
#pragma once

#include <cmath>

#include "tenon/core/random.h"  // TENON_HD

namespace tenon::math {

template <class T>
TENON_HD inline T exp(T x) {
  return std::exp(x);
}
template <class T>
TENON_HD inline T log(T x) {
  return std::log(x);
}
template <class T>
TENON_HD inline T sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
TENON_HD inline T sin(T x) {
  return std::sin(x);
}
template <class T>
TENON_HD inline T cos(T x) {
  return std::cos(x);
}
template <class T>
TENON_HD inline T tanh(T x) {
  return std::tanh(x);
}
template <class T>
TENON_HD inline T erf(T x) {
  return std::erf(x);
}

}  // namespace tenon::math
