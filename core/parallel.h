// parallel_for over one OpenMP team, shared with oneDNN (a second pool would fight its spinning
// workers). Work below a threshold runs on the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

#include "tenon/core/rank_context.h"

#ifndef TENON_SERIAL_PARALLEL
#include <omp.h>
#endif

namespace tenon {

// Below about this many bytes moved, or flops / 16, a fork costs more than it saves.
inline constexpr int64_t kParallelBytes = 64 << 10;

// Runs body(begin, end) over disjoint parts of [0, count); parts are multiples of `align` but for
// the last. `work` is the bytes all of it moves. Results must not depend on the split.
template <class Body>
void parallel_for(int64_t count, int64_t work, Body&& body, int64_t align = 1) {
  if (count <= 0) return;
  const int64_t blocks = (count + align - 1) / align;
  const int threads = static_cast<int>(std::min<int64_t>(num_threads(), blocks));
#ifndef TENON_SERIAL_PARALLEL
  if (threads > 1 && work >= kParallelBytes && !omp_in_parallel()) {
    std::exception_ptr failure;
    RankContext& context = rank_context();
#pragma omp parallel num_threads(threads)
    {
      const RankContextScope scope(context);
      const int64_t parts = omp_get_num_threads();
      const int64_t part = omp_get_thread_num();
      const int64_t begin = blocks * part / parts * align;
      const int64_t end = std::min(blocks * (part + 1) / parts * align, count);
      try {
        if (begin < end) body(begin, end);
      } catch (...) {
#pragma omp critical
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return;
  }
#endif
  static_cast<void>(threads);
  static_cast<void>(work);
  body(int64_t{0}, count);
}

}  // namespace tenon
