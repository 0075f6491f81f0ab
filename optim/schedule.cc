#include "tenon/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tenon/core/check.h"
#include "tenon/optim/check_options.h"

namespace tenon {

ScheduleKind schedule_from_name(const std::string& name) {
  if (name == "constant") return ScheduleKind::constant;
  if (name == "cosine") return ScheduleKind::cosine;
  if (name == "step") return ScheduleKind::step;
  fail("schedule", "unknown schedule: given ", name, ", wanted constant, cosine or step");
}

Schedule::Schedule(ScheduleOptions options) : options_(options) {
  check_not_negative("schedule", "lr", options.lr);
  check_not_negative("schedule", "min_lr", options.min_lr);
  check_not_negative("schedule", "warmup", static_cast<double>(options.warmup));
  check_not_negative("schedule", "gamma", options.gamma);
  if (options.kind == ScheduleKind::constant) return;
  TENON_CHECK(options.min_lr <= options.lr, "schedule", "bad min_lr: given ", options.min_lr,
              ", wanted at most lr, ", options.lr);
  if (options.kind == ScheduleKind::cosine) {
    TENON_CHECK(options.steps > options.warmup, "schedule",
                "bad number of steps for cosine: given ", options.steps,
                ", wanted more than the warm-up, ", options.warmup);
    return;
  }
  if (options.step_size == 0) options_.step_size = std::max<int64_t>(1, options.steps / 3);
  TENON_CHECK(options_.step_size > 0 && (options.step_size > 0 || options.steps > 0), "schedule",
              "bad step_size: given ", options.step_size, " and ", options.steps,
              " steps, wanted one of them positive");
}

double Schedule::lr_at(int64_t step) const {
  const auto& [kind, lr, min_lr, warmup, steps, step_size, gamma] = options_;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  switch (kind) {
    case ScheduleKind::constant:
      return lr;
    case ScheduleKind::cosine: {
      const double done =
          std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
      return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
    }
    case ScheduleKind::step:
      return std::max(min_lr, lr * std::pow(gamma, static_cast<double>(step / step_size)));
  }
  return lr;
}

}  // namespace tenon
