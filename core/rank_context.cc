#include "tenon/core/rank_context.h"

#include "tenon/core/check.h"
#include "tenon/core/runtime.h"

#ifndef TENON_SERIAL_PARALLEL
#include <omp.h>
#endif

namespace tenon {
namespace {

thread_local RankContext* current = nullptr;

// What oneDNN and Eigen ask for, on this thread.
#ifdef TENON_SERIAL_PARALLEL
int openmp_threads() { return 1; }
void set_openmp_threads(int) {}
#else
int openmp_threads() { return omp_get_max_threads(); }
void set_openmp_threads(int threads) { omp_set_num_threads(threads); }
#endif

}  // namespace

RankContext::RankContext(int rank, int ranks) : rank_(rank), ranks_(ranks) { seed(0); }

void RankContext::seed(uint64_t value) {
  init = Generator(value, 0);
  dropout = Generator(value, static_cast<uint64_t>(rank_) + 1);
}

RankContext& rank_context() {
  static RankContext* const process = new RankContext();  // never destroyed: storages outlive main
  return current != nullptr ? *current : *process;
}

RankContextScope::RankContextScope(RankContext& context)
    : previous_(current), previous_threads_(openmp_threads()) {
  current = &context;
  if (const int threads = context.threads; threads > 0) set_openmp_threads(threads);
}

RankContextScope::~RankContextScope() {
  current = previous_;
  set_openmp_threads(previous_threads_);
}

void set_default_device(Device device) {
  const int count = runtime(device.type).device_count();
  TENON_CHECK(device.index >= 0 && device.index < count, "device", "no such device: given ", device,
              ", wanted an index below ", count);
  rank_context().device = device;
}

void set_num_threads(int threads) {
  TENON_CHECK(threads >= 1, "threads", "wrong number of threads: given ", threads,
              ", wanted at least 1");
  rank_context().threads = threads;
  set_openmp_threads(threads);
}

int num_threads() {
#ifdef TENON_SERIAL_PARALLEL
  return 1;
#else
  const int threads = rank_context().threads;
  return threads > 0 ? threads : openmp_threads();
#endif
}

}  // namespace tenon
