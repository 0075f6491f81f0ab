// What one training step did, as a line of the log and as a progress line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/core/memory_counters.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/stream.h"
#include "tenon/core/trace.h"
#include "tenon/tools/run_log.h"

namespace tenon::tools {

// Where a step's time goes. `exposed` is what backward waited for communication; it is not part of
// `backward`.
enum class Phase { data, forward, backward, exposed, optimizer };
inline constexpr int kPhaseCount = 5;

// Splits time into phases: each lap gives the time since the one before to a phase. It is the time
// of the default device's compute stream, which is the host's on the CPU; a device knows it only
// when it has got there.
class PhaseClock {
 public:
  PhaseClock() : begin_(now()), last_(begin_) {}
  void lap(Phase phase) {
    const StreamEvent event = now();
    laps_.push_back({phase, {last_, event}});
    last_ = event;
  }
  // The time since the last lap belongs to no phase.
  void resume() { last_ = now(); }
  // Returns when the times are known: what was timed is done.
  void wait() const { synchronize(last_); }
  // Backward waited for communication in this part of its laps.
  void exposed(const Interval& part) { exposed_.push_back(part); }
  double ms(Phase phase) const;
  // From the beginning to the last lap.
  double total_ms() const { return static_cast<double>(Interval{begin_, last_}.ns()) / 1e6; }

 private:
  struct Lap {
    Phase phase;
    Interval interval;
  };
  static StreamEvent now() { return record_timed_event(current_stream(default_device())); }

  StreamEvent begin_;
  StreamEvent last_;
  std::vector<Lap> laps_;
  std::vector<Interval> exposed_;
};

struct StepRecord {
  int64_t step = 0;     // this step's number, from 1
  int64_t epoch = 0;    // from 1
  int64_t samples = 0;  // over all ranks
  int64_t tokens = 0;   // in them, 0 where they are no texts
  double loss = 0;      // mean over them
  double accuracy = 0;
  double lr = 0;
  double grad_norm = 0;  // not computed: NaN, which JSON writes as null
  PhaseClock clock;
  double comm_ms = 0;  // the collectives' own time
  Traffic traffic;     // of the gradients

  double samples_per_s() const { return static_cast<double>(samples) * 1e3 / clock.total_ms(); }
  double tokens_per_s() const { return static_cast<double>(tokens) * 1e3 / clock.total_ms(); }
};

// The fields of a "step" line; memory is that of this rank as it is now.
Json to_json(const StepRecord& record, const MemoryCounters& memory);

// Collects steps and makes one line of those since the last line: loss, accuracy and times are
// means.
class Progress {
 public:
  // `utilization_per_sample`: share of the ranks' peak that one sample a second needs; 0: not
  // shown.
  Progress(int64_t steps, int64_t epochs, double utilization_per_sample = 0)
      : steps_(steps), epochs_(epochs), utilization_per_sample_(utilization_per_sample) {}
  void add(const StepRecord& record);
  bool empty() const { return count_ == 0; }
  // "step 120/2000 epoch 1/3 loss 0.412 …"; begins anew.
  std::string line(const MemoryCounters& memory);

 private:
  int64_t steps_;
  int64_t epochs_;
  double utilization_per_sample_;
  int64_t count_ = 0;
  StepRecord last_;
  double loss_ = 0;
  double correct_ = 0;
  int64_t samples_ = 0;
  int64_t tokens_ = 0;
  double step_ms_ = 0;
  std::array<double, kPhaseCount> phase_ms_{};
};

}  // namespace tenon::tools
