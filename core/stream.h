// Streams and events as plain values. On the CPU every operation is complete when it returns, so
// both do nothing there; algorithm code is the same on every device.
#pragma once

#include <cstdint>

#include "tenon/core/device.h"

namespace tenon {

struct Stream {
  Device device;
  uint64_t id = 0;  // 0 is the compute stream
  bool operator==(const Stream&) const = default;
};

// A point in a stream's work.
struct StreamEvent {
  Device device;
  uint64_t handle = 0;
};

// The stream that this thread's kernels on `device` are enqueued on.
Stream current_stream(Device device);
void set_current_stream(Stream stream);

StreamEvent record_event(Stream stream);
// Work enqueued on `stream` from now on runs after `event`.
void wait_event(Stream stream, StreamEvent event);
// Blocks the host until all work of `device` is done.
void synchronize(Device device);

}  // namespace tenon
