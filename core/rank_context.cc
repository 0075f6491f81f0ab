#include "tenon/core/rank_context.h"

#include "tenon/core/check.h"

#ifndef TENON_SERIAL_PARALLEL
#include <omp.h>
#endif

namespace tenon {
namespace {

thread_local RankContext* current = nullptr;

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

RankContextScope::RankContextScope(RankContext& context) : previous_(current) {
  current = &context;
  if (const int threads = context.threads; threads > 0) set_num_threads(threads);
}

RankContextScope::~RankContextScope() { current = previous_; }

void set_num_threads(int threads) {
  TENON_CHECK(threads >= 1, "threads", "wrong number of threads: given ", threads,
              ", wanted at least 1");
  rank_context().threads = threads;
#ifndef TENON_SERIAL_PARALLEL
  omp_set_num_threads(threads);  // what oneDNN and Eigen ask for, on this thread
#endif
}

int num_threads() {
#ifdef TENON_SERIAL_PARALLEL
  return 1;
#else
  const int threads = rank_context().threads;
  return threads > 0 ? threads : omp_get_max_threads();
#endif
}

}  // namespace tenon
