// What one training step did, as a line of the log and as a progress line.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tenon/core/memory_counters.h"
#include "tenon/core/trace.h"
#include "tenon/tools/run_log.h"

namespace tenon::tools {

// Where a step's time goes. `exposed` is what backward waited for communication; it is not part of
// `backward`.
enum class Phase { data, forward, backward, exposed, optimizer };
inline constexpr int kPhaseCount = 5;

// Splits wall time into phases: each lap gives the time since the one before to a phase.
class PhaseClock {
 public:
  PhaseClock() : begin_(now_ns()), last_(begin_) {}
  void lap(Phase phase) {
    const int64_t now = now_ns();
    ns_[static_cast<size_t>(phase)] += now - last_;
    last_ = now;
  }
  // The time since the last lap belongs to no phase.
  void resume() { last_ = now_ns(); }
  void move(Phase from, Phase to, int64_t ns) {
    ns_[static_cast<size_t>(from)] -= ns;
    ns_[static_cast<size_t>(to)] += ns;
  }
  double ms(Phase phase) const {
    return static_cast<double>(ns_[static_cast<size_t>(phase)]) / 1e6;
  }
  // From the first to the last lap.
  double total_ms() const { return static_cast<double>(last_ - begin_) / 1e6; }

 private:
  int64_t begin_;
  int64_t last_;
  std::array<int64_t, kPhaseCount> ns_{};
};

struct StepRecord {
  int64_t step = 0;     // this step's number, from 1
  int64_t epoch = 0;    // from 1
  int64_t samples = 0;  // over all ranks
  double loss = 0;      // mean over them
  double accuracy = 0;
  double lr = 0;
  double grad_norm = 0;  // not computed: NaN, which JSON writes as null
  PhaseClock clock;
  double comm_ms = 0;  // the collectives' own time
  Traffic traffic;     // of the gradients

  double samples_per_s() const { return static_cast<double>(samples) * 1e3 / clock.total_ms(); }
};

// The fields of a "step" line; memory is that of this rank as it is now.
Json to_json(const StepRecord& record, const MemoryCounters& memory);

// Collects steps and makes one line of those since the last line: loss, accuracy and times are
// means.
class Progress {
 public:
  Progress(int64_t steps, int64_t epochs) : steps_(steps), epochs_(epochs) {}
  void add(const StepRecord& record);
  bool empty() const { return count_ == 0; }
  // "step 120/2000 epoch 1/3 loss 0.412 …"; begins anew.
  std::string line(const MemoryCounters& memory);

 private:
  int64_t steps_;
  int64_t epochs_;
  int64_t count_ = 0;
  StepRecord last_;
  double loss_ = 0;
  double correct_ = 0;
  int64_t samples_ = 0;
  double step_ms_ = 0;
  std::array<double, kPhaseCount> phase_ms_{};
};

}  // namespace tenon::tools
