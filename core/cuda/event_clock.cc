#include "tenon/core/cuda/event_clock.h"

#include "tenon/core/cuda/check.h"
#include "tenon/core/cuda/device_table.h"

namespace tenon::cuda {

EventClock::EventClock(Device device) {
  select(device.index);
  check(cudaEventCreateWithFlags(&start_, cudaEventDefault), "event", "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&stop_, cudaEventDefault), "event", "cudaEventCreateWithFlags");
}

EventClock::~EventClock() {
  static_cast<void>(cudaEventDestroy(start_));
  static_cast<void>(cudaEventDestroy(stop_));
}

void EventClock::start(cudaStream_t stream) {
  check(cudaEventRecord(start_, stream), "event", "cudaEventRecord");
}
void EventClock::stop(cudaStream_t stream) {
  check(cudaEventRecord(stop_, stream), "event", "cudaEventRecord");
}

int64_t EventClock::elapsed_ns() const {
  if (cudaEventQuery(stop_) != cudaSuccess) return 0;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_, stop_), "event", "cudaEventElapsedTime");
  return static_cast<int64_t>(milliseconds * 1e6F);
}

}  // namespace tenon::cuda
