// Reductions over short dense rows, vectorised. Rows are at most a few thousand elements, so that
// an f32 sum over one is accurate; callers add such partial sums in f64.
#pragma once

#include <cstdint>
#include <limits>

#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cpu {

template <class C>
C row_sum(const C* x, int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

// Sum of (x - center)^2.
template <class C>
C row_square_deviation(const C* x, int64_t n, C center) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += (x[i] - center) * (x[i] - center);
  return sum;
}

// NaN is skipped; -infinity for a row without numbers.
template <class C>
C row_max(const C* x, int64_t n) {
  C most = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

// Sum of exp(x - shift).
template <class C>
C row_exp_sum(const C* x, int64_t n, C shift) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += math::exp(x[i] - shift);
  return sum;
}
// The same, with the terms stored in `out`, which may be x.
template <class C>
C row_exp(const C* x, C* out, int64_t n, C shift) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const C value = math::exp(x[i] - shift);
    out[i] = value;
    sum += value;
  }
  return sum;
}

// What is subtracted before exp: the maximum, or 0 where that is -infinity (exp then gives 0).
template <class C>
C exp_shift(C most) {
  return most == -std::numeric_limits<C>::infinity() ? C(0) : most;
}

// log(sum of exp) of a long row, chunk by chunk with a running maximum.
template <class C>
class LogSumExp {
 public:
  void add(const C* x, int64_t n) {
    const C most = row_max(x, n);
    if (most > most_) {
      if (sum_ != 0) sum_ *= math::exp(static_cast<double>(shift()) - static_cast<double>(most));
      most_ = most;
    }
    sum_ += static_cast<double>(row_exp_sum(x, n, shift()));
  }
  C shift() const { return exp_shift(most_); }
  double sum() const { return sum_; }  // of exp(x - shift())
  double value() const { return static_cast<double>(shift()) + math::log(sum_); }

 private:
  C most_ = -std::numeric_limits<C>::infinity();
  double sum_ = 0;
};

// Sum of a * b.
template <class C>
C row_dot(const C* a, const C* b, int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace tenon::kernels::cpu
