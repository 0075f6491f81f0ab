#include "tenon/tools/op_timer.h"

#include <algorithm>
#include <chrono>

#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"

namespace tenon::tools {
namespace {

// A device needs more than the host's clock: the queue must be long enough to hide the launches.
double shortest_batch_us() { return default_device() == kCpu ? 20 : 2000; }
constexpr int kFewestBatches = 3;

double time_us(const std::function<void()>& run, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  synchronize(default_device());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

double best_us(const std::function<void()>& run, double seconds) {
  run();  // touches memory, makes what kernels cache
  const double once = time_us(run, 1);
  const int times = std::max(1, static_cast<int>(shortest_batch_us() / std::max(once, 0.1)));
  double best = once, spent = once;
  for (int batch = 1; batch < kFewestBatches || spent < seconds * 1e6; ++batch) {
    const double us = time_us(run, times);
    best = std::min(best, us / times);
    spent += us;
  }
  return best;
}

}  // namespace tenon::tools
