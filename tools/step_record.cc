#include "tenon/tools/step_record.h"

#include <cstdio>
#include <utility>

namespace tenon::tools {
namespace {

Json memory_to_json(const MemoryCounters& memory) {
  Json fields;
  for (int i = 0; i < kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    fields[name_of(category)] = memory.live(category);
  }
  fields["live"] = memory.live();
  fields["peak"] = memory.peak();
  return fields;
}

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

double PhaseClock::ms(Phase phase) const {
  int64_t waited = 0;
  for (const Interval& part : exposed_) waited += part.ns();
  int64_t ns = phase == Phase::exposed ? waited : 0;
  for (const Lap& lap : laps_) {
    if (lap.phase == phase) ns += lap.interval.ns();
  }
  if (phase == Phase::backward) ns -= waited;
  return static_cast<double>(ns) / 1e6;
}

Json to_json(const StepRecord& record, const MemoryCounters& memory) {
  const PhaseClock& clock = record.clock;
  return {{"step", record.step},
          {"epoch", record.epoch},
          {"loss", record.loss},
          {"accuracy", record.accuracy},
          {"lr", record.lr},
          {"grad_norm", record.grad_norm},
          {"samples_per_s", record.samples_per_s()},
          {"step_ms", clock.total_ms()},
          {"forward_ms", clock.ms(Phase::forward)},
          {"backward_ms", clock.ms(Phase::backward)},
          {"optimizer_ms", clock.ms(Phase::optimizer)},
          {"data_ms", clock.ms(Phase::data)},
          {"comm_ms", record.comm_ms},
          {"comm_exposed_ms", clock.ms(Phase::exposed)},
          {"comm_calls", record.traffic.calls},
          {"comm_bytes", record.traffic.bytes},
          {"memory", memory_to_json(memory)}};
}

void Progress::add(const StepRecord& record) {
  const auto samples = static_cast<double>(record.samples);
  ++count_;
  loss_ += record.loss * samples;
  correct_ += record.accuracy * samples;
  samples_ += record.samples;
  step_ms_ += record.clock.total_ms();
  for (int i = 0; i < kPhaseCount; ++i) {
    phase_ms_[static_cast<size_t>(i)] += record.clock.ms(static_cast<Phase>(i));
  }
  last_ = record;
}

std::string Progress::line(const MemoryCounters& memory) {
  const auto samples = static_cast<double>(samples_), count = static_cast<double>(count_);
  const auto ms = [&](Phase phase) { return phase_ms_[static_cast<size_t>(phase)] / count; };
  const std::string text =
      format("step %lld/%lld epoch %lld/%lld loss %.4f acc %.2f%% lr %.4g",
             static_cast<long long>(last_.step), static_cast<long long>(steps_),
             static_cast<long long>(last_.epoch), static_cast<long long>(epochs_), loss_ / samples,
             100 * correct_ / samples, last_.lr) +
      format(" | %.0f samples/s | step %.2f ms: forward %.2f backward %.2f exposed comm %.2f",
             samples * 1e3 / step_ms_, step_ms_ / count, ms(Phase::forward), ms(Phase::backward),
             ms(Phase::exposed)) +
      format(" optimizer %.2f data %.2f | memory %.1f/%.1f MB live/peak", ms(Phase::optimizer),
             ms(Phase::data), megabytes(memory.live()), megabytes(memory.peak()));
  *this = Progress(steps_, epochs_);
  return text;
}

}  // namespace tenon::tools
