// Which task comes before which, however long they take: vector clocks. Every stream is a
// component; component 0 is the host, all its threads as one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace simt {

class Clock {
 public:
  uint32_t operator[](uint32_t component) const {
    return component < times_.size() ? times_[component] : 0;
  }
  uint32_t advance(uint32_t component) {
    if (component >= times_.size()) times_.resize(component + 1);
    return ++times_[component];
  }
  void join(const Clock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
    for (size_t i = 0; i < other.times_.size(); ++i) {
      times_[i] = std::max(times_[i], other.times_[i]);
    }
  }

 private:
  std::vector<uint32_t> times_;
};

struct Task {
  std::string what;
  uint32_t stream = 0;  // its component
  uint32_t time = 0;
  int device = 0;
  Clock clock;  // of what comes before it, and of itself
};

// The task that the calling OS thread runs, or nullptr.
const Task* current_task();
// What the host knows to be done, and its own time.
Clock host_clock();

}  // namespace simt
