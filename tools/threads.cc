#include "tenon/tools/threads.h"

#include <sched.h>

#include <cstdlib>
#include <iostream>

#include "tenon/core/rank_context.h"

namespace tenon::tools {
namespace {

int usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

int use_threads(int threads, const World& world) {
  if (threads > 0) set_num_threads(threads);
  const int used = num_threads(), cores = usable_cores();
  const bool passive = std::getenv("OMP_WAIT_POLICY") != nullptr;
  if (world.rank() == 0 && used > 1 && used * world.local_size() > cores && !passive) {
    std::cerr << "warning: " << world.local_size() << " x " << used << " threads on " << cores
              << " cores: waiting threads take the cores from working ones; "
                 "OMP_WAIT_POLICY=passive helps\n";
  }
  return used;
}

}  // namespace tenon::tools
