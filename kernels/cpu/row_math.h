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

// Sum of a * b.
template <class C>
C row_dot(const C* a, const C* b, int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace tenon::kernels::cpu
