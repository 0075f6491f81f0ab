// How long something took on a stream: two timed events, read when both have passed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "tenon/core/device.h"

namespace tenon::cuda {

class EventClock {
 public:
  explicit EventClock(Device device);

  void start(cudaStream_t stream);
  void stop(cudaStream_t stream);
  // 0 until the device has passed stop().
  int64_t elapsed_ns() const;

 private:
  const std::shared_ptr<void> start_;
  const std::shared_ptr<void> stop_;
};

}  // namespace tenon::cuda
