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

// How the sum becomes the result.
template <class C>
C finish(C value, C divisor) {
  return value / divisor;
}

template <ReduceOp op, class T>
void reduce_block(const RankReduce& job, int64_t begin, int64_t n) {
  using C = Compute<T>;
  alignas(64) C sum[kBlock];
  const auto source = [&](size_t r) { return static_cast<const T*>(job.sources[r]) + begin; };
  const T* first = source(0);
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<C>(first[i]);
  for (size_t r = 1; r < job.sources.size(); ++r) {
    const T* next = source(r);
    for (int64_t i = 0; i < n; ++i) sum[i] = combine<op, C>(sum[i], static_cast<C>(next[i]));
  }
  const C divisor = static_cast<C>(job.divisor);
  for (void* destination : job.destinations) {
    T* to = static_cast<T*>(destination) + begin;
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<T>(op == ReduceOp::mean ? finish(sum[i], divisor) : sum[i]);
    }
  }
}

// Two ranks: no buffer, one pass.
template <ReduceOp op, class T>
void reduce_two(const RankReduce& job) {
  using C = Compute<T>;
  const T* a = static_cast<const T*>(job.sources[0]);
  const T* b = static_cast<const T*>(job.sources[1]);
  T* x = static_cast<T*>(job.destinations[0]);
  T* y = static_cast<T*>(job.destinations[job.destinations.size() - 1]);
  const C divisor = static_cast<C>(job.divisor);
  const auto element = [&](int64_t i) {
    const C sum = combine<op, C>(static_cast<C>(a[i]), static_cast<C>(b[i]));
    return static_cast<T>(op == ReduceOp::mean ? finish(sum, divisor) : sum);
  };
  if (x == y) {
#pragma GCC ivdep
    for (int64_t i = 0; i < job.count; ++i) x[i] = element(i);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < job.count; ++i) {
      const T value = element(i);
      x[i] = value;
      y[i] = value;
    }
  }
}

template <ReduceOp op, class T>
void reduce(const RankReduce& job) {
  const size_t destinations = job.destinations.size();
  if (job.sources.size() == 2 && (destinations == 1 || destinations == 2)) {
    reduce_two<op, T>(job);
    return;
  }
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
