// Kernels with a bug each, and the same kernels without it: the emulator and the checker must
// report every bug, and nothing else.
#pragma once

#include <vector>

#include "tenon/tests/simt/report.h"

namespace simt::planted {

struct Case {
  const char* name;
  Kind kind;
  bool needs_checker;  // the emulator alone cannot know
  void (*run)(bool broken);
};

std::vector<Case> barrier_cases();
std::vector<Case> warp_cases();
std::vector<Case> memory_cases();
std::vector<Case> race_cases();

// Whether this program has the access checker.
bool has_checker();

}  // namespace simt::planted
