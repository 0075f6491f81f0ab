// What belongs to a rank and is not a communicator: its number, step, random numbers, memory
// counters, event ring and thread count. A thread-local pointer names the current one, so that
// ranks can be threads of one process; threads that a rank starts must inherit it
// (RankContextScope).
#pragma once

#include <atomic>
#include <memory>

#include "tenon/core/device.h"
#include "tenon/core/memory_counters.h"
#include "tenon/core/random.h"
#include "tenon/core/trace.h"

namespace tenon {

class RankContext {
 public:
  explicit RankContext(int rank = 0, int ranks = 1);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // Seeds both generators: `init` draws the same numbers on every rank, `dropout` differs by rank.
  void seed(uint64_t seed);

  std::atomic<int64_t> step{0};  // of the training loop, for errors and traces
  Generator init;                // initial values of parameters: the same on every rank
  Generator dropout;             // everything that should differ between ranks
  std::shared_ptr<MemoryCounters> memory = std::make_shared<MemoryCounters>();
  std::shared_ptr<EventRing> ring = std::make_shared<EventRing>();
  TrafficCounters traffic;
  std::atomic<int> threads{0};  // of parallel_for; 0 = all that OpenMP has
  Device device = kCpu;         // where tensors are made when nothing else is said

 private:
  int rank_;
  int ranks_;
};

// The context of the calling thread: the process's own one unless a scope set another.
RankContext& rank_context();

// Makes `context` the calling thread's until the end of the scope.
class RankContextScope {
 public:
  explicit RankContextScope(RankContext& context);
  ~RankContextScope();
  RankContextScope(const RankContextScope&) = delete;
  RankContextScope& operator=(const RankContextScope&) = delete;

 private:
  RankContext* previous_;
  int previous_threads_;
};

// Seeds the random numbers of the calling thread's rank.
inline void seed(uint64_t value) { rank_context().seed(value); }

// Where this rank makes tensors, parameters of new modules among them, when no device is given.
inline Device default_device() { return rank_context().device; }
void set_default_device(Device device);

// Threads a kernel of this rank may use.
void set_num_threads(int threads);
int num_threads();

}  // namespace tenon
