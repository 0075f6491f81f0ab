// What is kept for each CUDA device: its properties, streams, events that can be used again and the
// record of faults. Made when a device is used for the first time, kept until the process ends.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "tenon/core/cuda/fault.h"
#include "tenon/core/stream.h"

namespace tenon::cuda {

// Makes `index` the calling thread's CUDA device.
void select(int index);

Stream add_stream(int index, StreamPriority priority);
cudaStream_t handle_of(Stream stream);

// An event, with or without timing; it goes back to the device's others with its last owner.
enum class EventTiming { off, on };
std::shared_ptr<void> take_event(int index, EventTiming timing = EventTiming::off);
inline cudaEvent_t handle_of(const StreamEvent& event) {
  return static_cast<cudaEvent_t>(event.handle.get());
}

}  // namespace tenon::cuda
