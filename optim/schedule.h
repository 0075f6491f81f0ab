// Learning-rate schedules: pure functions of the step, so that a resumed run needs no state.
//   optimizer.set_lr(schedule.lr_at(step));   before step 0, 1, 2 …
// All begin with a linear warm-up: lr (step + 1) / warmup.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

enum class ScheduleKind {
  constant,
  cosine,  // from lr to min_lr along half a cosine, over the steps after the warm-up
  step,    // multiplied by `gamma` every `step_size` steps, not below min_lr
};
// "constant", "cosine" or "step"; another name is an Error that lists them.
ScheduleKind schedule_from_name(const std::string& name);

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 1e-3;
  double min_lr = 0;
  int64_t warmup = 0;
  int64_t steps = 0;      // of the whole run; cosine wants it
  int64_t step_size = 0;  // 0: a third of `steps`
  double gamma = 0.1;
};

class Schedule {
 public:
  explicit Schedule(ScheduleOptions options);
  double lr_at(int64_t step) const;

 private:
  ScheduleOptions options_;
};

}  // namespace tenon
