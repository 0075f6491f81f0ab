// Reductions over short dense rows, vectorised. Rows are at most a few thousand elements, so that
// an f32 sum over one is accurate; callers add such partial sums in f64.
#pragma once

#include <cstdint>
#include <limits>

#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cpu {

// lanes[0] becomes the fold of 2 kWidth lanes. Widths are constants so that it is unrolled.
template <int64_t kWidth, class C, class Join>
[[gnu::always_inline]] inline void join_lanes(C* lanes, const Join& join) {
  for (int64_t j = 0; j < kWidth; ++j) lanes[j] = join(lanes[j], lanes[j + kWidth]);
  if constexpr (kWidth > 1) join_lanes<kWidth / 2>(lanes, join);
}

// Folds term(i) for i below n with `join`, over lanes that add up side by side and are folded at
// the end: fast because no step waits for the one before, and the same bits for any vector width.
template <class C, class Term, class Join>
[[gnu::always_inline]] inline C fold_lanes(int64_t n, C start, const Term& term, const Join& join) {
  constexpr int64_t kLanes = 256 / sizeof(C);
  alignas(64) C lanes[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = start;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC ivdep
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = join(lanes[j], term(i + j));
  }
  const int64_t rest = n - i;
#pragma GCC ivdep
  for (int64_t j = 0; j < rest; ++j) lanes[j] = join(lanes[j], term(i + j));
  join_lanes<kLanes / 2>(lanes, join);
  return lanes[0];
}
template <class C, class Term>
[[gnu::always_inline]] inline C sum_of(int64_t n, const Term& term) {
  return fold_lanes(n, C(0), term, [](C a, C b) { return a + b; });
}

template <class C>
C row_sum(const C* x, int64_t n) {
  return sum_of<C>(n, [x](int64_t i) { return x[i]; });
}

// Sum of (x - center)^2.
template <class C>
C row_square_deviation(const C* x, int64_t n, C center) {
  return sum_of<C>(n, [=](int64_t i) { return (x[i] - center) * (x[i] - center); });
}

// Sum of a * b.
template <class C>
C row_dot(const C* a, const C* b, int64_t n) {
  return sum_of<C>(n, [=](int64_t i) { return a[i] * b[i]; });
}

// NaN is skipped; -infinity for a row without numbers.
template <class C>
C row_max(const C* x, int64_t n) {
  return fold_lanes(
      n, -std::numeric_limits<C>::infinity(), [x](int64_t i) { return x[i]; },
      [](C a, C b) { return b > a ? b : a; });
}

using math::exp_not_positive;

// Sum of exp(x - shift) for shift >= x.
template <class C>
C row_exp_sum(const C* x, int64_t n, C shift) {
  return sum_of<C>(n, [=](int64_t i) { return exp_not_positive(x[i] - shift); });
}
// The same, with the terms stored in `out`, which may be x.
template <class C>
C row_exp(const C* x, C* out, int64_t n, C shift) {
  return sum_of<C>(n, [=](int64_t i) { return out[i] = exp_not_positive(x[i] - shift); });
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

}  // namespace tenon::kernels::cpu
