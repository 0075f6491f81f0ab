// Comparing two programs by runs in alternation, so that whatever else the machine does meets both.
#pragma once

#include <functional>
#include <vector>

#include "tenon/distributed/comm/process_group.h"

namespace tenon::tools {

struct Timings {
  std::vector<double> ms;
  double best() const;
  double median() const;
};

struct TimingPair {
  Timings a;
  Timings b;
};

// Each function makes one run and returns its time. Which of them is first changes from pair to
// pair.
TimingPair alternate(int pairs, const std::function<double()>& a, const std::function<double()>& b);

// A run of all ranks, which start together; the slowest counts. Collective.
double timed_run(ProcessGroup group, const std::function<double()>& run);

}  // namespace tenon::tools
