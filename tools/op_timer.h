// The time of something short: the best of repeated runs after a warm-up.
#pragma once

#include <functional>

namespace tenon::tools {

// Microseconds of one run. Runs are timed in batches of at least 20 us, which the clock resolves;
// there are at least three batches, and otherwise as many as fit `seconds`.
double best_us(const std::function<void()>& run, double seconds);

}  // namespace tenon::tools
