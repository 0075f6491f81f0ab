#include <catch2/catch.hpp>

#include "tenon/optim/schedule.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

TEST_CASE("a constant schedule warms up and stays") {
  const Schedule schedule({.lr = 2, .warmup = 4});
  CHECK(schedule.lr_at(0) == Approx(0.5));
  CHECK(schedule.lr_at(3) == Approx(2));
  CHECK(schedule.lr_at(4) == 2);
  CHECK(schedule.lr_at(1000000) == 2);
  CHECK(Schedule({.lr = 3}).lr_at(0) == 3);
}

TEST_CASE("a cosine goes from lr to min_lr and stays there") {
  const Schedule schedule(
      {.kind = ScheduleKind::cosine, .lr = 1, .min_lr = 0.1, .warmup = 10, .steps = 110});
  CHECK(schedule.lr_at(4) == Approx(0.5));
  CHECK(schedule.lr_at(10) == Approx(1));
  CHECK(schedule.lr_at(60) == Approx(0.55));
  CHECK(schedule.lr_at(35) == Approx(0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5))));
  CHECK(schedule.lr_at(110) == Approx(0.1));
  CHECK(schedule.lr_at(500) == Approx(0.1));
  for (int step = 10; step < 110; ++step) CHECK(schedule.lr_at(step + 1) < schedule.lr_at(step));
}

TEST_CASE("a step schedule falls by gamma, not below min_lr") {
  const Schedule schedule(
      {.kind = ScheduleKind::step, .lr = 1, .min_lr = 0.02, .step_size = 10, .gamma = 0.1});
  CHECK(schedule.lr_at(9) == Approx(1));
  CHECK(schedule.lr_at(10) == Approx(0.1));
  CHECK(schedule.lr_at(25) == Approx(0.02));
  const Schedule thirds({.kind = ScheduleKind::step, .lr = 1, .steps = 30});
  CHECK(thirds.lr_at(9) == Approx(1));
  CHECK(thirds.lr_at(29) == Approx(0.01));
}

TEST_CASE("schedules are known by name") {
  CHECK(schedule_from_name("constant") == ScheduleKind::constant);
  CHECK(schedule_from_name("cosine") == ScheduleKind::cosine);
  CHECK(schedule_from_name("step") == ScheduleKind::step);
  CHECK_THAT(error_of([] { schedule_from_name("linear"); }),
             Contains("given linear, wanted constant, cosine or step"));
}

TEST_CASE("bad options of schedules are named") {
  CHECK_THAT(error_of([] { Schedule({.lr = -1}); }), Contains("bad lr"));
  CHECK_THAT(error_of([] { Schedule({.warmup = -1}); }), Contains("bad warmup"));
  CHECK_THAT(error_of([] { Schedule({.kind = ScheduleKind::cosine, .warmup = 5, .steps = 5}); }),
             Contains("bad number of steps for cosine"));
  CHECK_THAT(error_of([] { Schedule({.kind = ScheduleKind::cosine, .min_lr = 1, .steps = 5}); }),
             Contains("bad min_lr"));
  CHECK_THAT(error_of([] { Schedule({.kind = ScheduleKind::step}); }), Contains("bad step_size"));
}
