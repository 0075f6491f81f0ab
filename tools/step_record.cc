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
  Json fields{{"step", record.step}, {"epoch", record.epoch}, {"loss", record.loss}};
  if (record.tokens == 0) fields["accuracy"] = record.accuracy;
  fields["lr"] = record.lr;
  fields["grad_norm"] = record.grad_norm;
  if (record.tokens > 0) {
    fields["tokens_per_s"] = record.tokens_per_s();
  } else {
    fields["samples_per_s"] = record.samples_per_s();
  }
  fields.update({{"step_ms", clock.total_ms()},
                 {"forward_ms", clock.ms(Phase::forward)},
                 {"backward_ms", clock.ms(Phase::backward)},
                 {"optimizer_ms", clock.ms(Phase::optimizer)},
                 {"data_ms", clock.ms(Phase::data)},
                 {"comm_ms", record.comm_ms},
                 {"comm_exposed_ms", clock.ms(Phase::exposed)},
                 {"comm_calls", record.traffic.calls},
                 {"comm_bytes", record.traffic.bytes},
                 {"memory", memory_to_json(memory)}});
  return fields;
}

void Progress::add(const StepRecord& record) {
  const auto samples = static_cast<double>(record.samples);
  ++count_;
  loss_ += record.loss * samples;
  correct_ += record.accuracy * samples;
  samples_ += record.samples;
  tokens_ += record.tokens;
  step_ms_ += record.clock.total_ms();
  for (int i = 0; i < kPhaseCount; ++i) {
    phase_ms_[static_cast<size_t>(i)] += record.clock.ms(static_cast<Phase>(i));
  }
  last_ = record;
}

std::string Progress::line(const MemoryCounters& memory) {
  const auto samples = static_cast<double>(samples_), count = static_cast<double>(count_);
  const auto ms = [&](Phase phase) { return phase_ms_[static_cast<size_t>(phase)] / count; };
  const double seconds = step_ms_ / 1e3;
  std::string text =
      format("step %lld/%lld epoch %lld/%lld loss %.4f", static_cast<long long>(last_.step),
             static_cast<long long>(steps_), static_cast<long long>(last_.epoch),
             static_cast<long long>(epochs_), loss_ / samples);
  if (tokens_ == 0) text += format(" acc %.2f%%", 100 * correct_ / samples);
  text += format(" lr %.4g | ", last_.lr);
  text += tokens_ > 0 ? format("%.0f tok/s", static_cast<double>(tokens_) / seconds)
                      : format("%.0f samples/s", samples / seconds);
  if (utilization_per_sample_ > 0) {
    text += format(" MFU %.1f%%", 100 * utilization_per_sample_ * samples / seconds);
  }
  text += format(" | step %.2f ms: forward %.2f backward %.2f exposed comm %.2f", step_ms_ / count,
                 ms(Phase::forward), ms(Phase::backward), ms(Phase::exposed)) +
          format(" optimizer %.2f data %.2f | memory %.1f/%.1f MB live/peak", ms(Phase::optimizer),
                 ms(Phase::data), megabytes(memory.live()), megabytes(memory.peak()));
  *this = Progress(steps_, epochs_, utilization_per_sample_);
  return text;
}

}  // namespace tenon::tools
