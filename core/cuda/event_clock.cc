#include "tenon/core/cuda/event_clock.h"

#include "tenon/core/cuda/check.h"
#include "tenon/core/cuda/device_table.h"

namespace tenon::cuda {
namespace {

cudaEvent_t handle_of(const std::shared_ptr<void>& event) {
  return static_cast<cudaEvent_t>(event.get());
}

}  // namespace

EventClock::EventClock(Device device)
    : start_(take_event(device.index, EventTiming::on)),
      stop_(take_event(device.index, EventTiming::on)) {}

void EventClock::start(cudaStream_t stream) {
  check(cudaEventRecord(handle_of(start_), stream), "event", "cudaEventRecord");
}
void EventClock::stop(cudaStream_t stream) {
  check(cudaEventRecord(handle_of(stop_), stream), "event", "cudaEventRecord");
}

int64_t EventClock::elapsed_ns() const {
  if (cudaEventQuery(handle_of(stop_)) != cudaSuccess) return 0;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, handle_of(start_), handle_of(stop_)), "event",
        "cudaEventElapsedTime");
  return static_cast<int64_t>(milliseconds * 1e6F);
}

}  // namespace tenon::cuda
