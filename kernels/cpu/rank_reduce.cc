// The reduction over ranks. Blocks of a few KB are added up in a local buffer, source after source,
// and then written to every destination: each source is read once and sequentially. The caller
// splits the work over ranks, so there is no parallel_for here.
#include "tenon/kernels/rank_reduce.h"

#include <algorithm>
#include <cmath>

#include "tenon/core/dispatch_dtype.h"

namespace tenon::kernels {
namespace {

constexpr int64_t kBlock = 2048;  // elements

template <ReduceOp op, class C>
C combine(C a, C b) {
  if constexpr (op == ReduceOp::max) return a > b || a != a ? a : b;
  if constexpr (op == ReduceOp::min) return a < b || a != a ? a : b;
  return a + b;
}

// Not inlined: inside the loop over ranks g++ 12 would gather across ranks instead.
template <ReduceOp op, class T, class C>
[[gnu::noinline]] void combine_row(C* sum, const T* next, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sum[i] = combine<op, C>(sum[i], static_cast<C>(next[i]));
}

template <ReduceOp op, class T>
void reduce_block(const RankReduce& job, int64_t begin, int64_t n) {
  using C = Compute<T>;
  alignas(64) C sum[kBlock];
  const auto source = [&](size_t r) { return static_cast<const T*>(job.sources[r]) + begin; };
  const T* first = source(0);
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<C>(first[i]);
  for (size_t r = 1; r < job.sources.size(); ++r) combine_row<op>(sum, source(r), n);
  if constexpr (op == ReduceOp::mean) {
    const C divisor = static_cast<C>(job.divisor);
    for (int64_t i = 0; i < n; ++i) sum[i] = sum[i] / divisor;
  }
  alignas(64) T result[kBlock];
  for (int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(sum[i]);
  for (void* destination : job.destinations) {
    std::copy_n(result, n, static_cast<T*>(destination) + begin);
  }
}

// Two ranks: no buffer, one pass.
template <ReduceOp op, class T, bool two_destinations>
void reduce_two(const RankReduce& job) {
  using C = Compute<T>;
  const T* a = static_cast<const T*>(job.sources[0]);
  const T* b = static_cast<const T*>(job.sources[1]);
  T* x = static_cast<T*>(job.destinations[0]);
  T* y = static_cast<T*>(job.destinations[two_destinations ? 1 : 0]);
  const C divisor = static_cast<C>(job.divisor);
  const int64_t count = job.count;
  const auto element = [a, b, divisor](int64_t i) {
    const C sum = combine<op, C>(static_cast<C>(a[i]), static_cast<C>(b[i]));
    return op == ReduceOp::mean ? sum / divisor : sum;
  };
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const C value = element(i);
    x[i] = static_cast<T>(value);
    if constexpr (two_destinations) y[i] = static_cast<T>(value);
  }
}

template <ReduceOp op, class T>
void reduce(const RankReduce& job) {
  const size_t destinations = job.destinations.size();
  if (job.sources.size() == 2 && destinations == 1) return reduce_two<op, T, false>(job);
  if (job.sources.size() == 2 && destinations == 2) return reduce_two<op, T, true>(job);
  for (int64_t begin = 0; begin < job.count; begin += kBlock) {
    reduce_block<op, T>(job, begin, std::min(kBlock, job.count - begin));
  }
}

void rank_reduce_cpu(const RankReduce& job) {
  TENON_CHECK(!job.sources.empty(), "rank_reduce", "no sources");
  if (job.count == 0 || job.destinations.empty()) return;
  TENON_CHECK(job.op != ReduceOp::mean || is_floating(job.dtype), "rank_reduce",
              "mean of integers: given ", job.dtype, ", wanted a floating dtype");
  dispatch_types<float, double, Float16, BFloat16, int64_t>(
      job.dtype, "rank_reduce", [&]<class T>() {
        switch (job.op) {
          case ReduceOp::sum:
            return reduce<ReduceOp::sum, T>(job);
          case ReduceOp::mean:
            return reduce<ReduceOp::mean, T>(job);
          case ReduceOp::max:
            return reduce<ReduceOp::max, T>(job);
          case ReduceOp::min:
            return reduce<ReduceOp::min, T>(job);
        }
      });
}

[[maybe_unused]] const bool registered = rank_reduce.set(DeviceType::cpu, rank_reduce_cpu);

}  // namespace
}  // namespace tenon::kernels
