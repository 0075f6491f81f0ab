// How long something took on a stream: two timed events, read when both have passed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tenon/core/device.h"

namespace tenon::cuda {

class EventClock {
 public:
  explicit EventClock(Device device);
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  void start(cudaStream_t stream);
  void stop(cudaStream_t stream);
  // 0 until the device has passed stop().
  int64_t elapsed_ns() const;

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace tenon::cuda
