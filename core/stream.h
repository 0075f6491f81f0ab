// Streams and events as plain values. On the CPU every operation is complete when it returns, so
// both do nothing there; algorithm code is the same on every device.
#pragma once

#include <cstdint>
#include <memory>

#include "tenon/core/device.h"

namespace tenon {

struct Stream {
  Device device;
  uint64_t id = 0;  // 0 is the compute stream
  bool operator==(const Stream&) const = default;
};

// A point in a stream's work. Null where everything is immediate and no time is kept.
struct StreamEvent {
  Device device;
  std::shared_ptr<void> handle = nullptr;
};

// From one timed event of a stream to a later one.
struct Interval {
  StreamEvent begin;
  StreamEvent end;
  int64_t ns() const;  // 0 until the end has been reached, and of an empty interval
};

enum class StreamPriority : uint8_t { normal, high };

// The stream that this thread's kernels on `device` are enqueued on.
Stream current_stream(Device device);
void set_current_stream(Stream stream);

// A stream besides the compute stream; it lives until the end of the process.
Stream create_stream(Device device, StreamPriority priority);

StreamEvent record_event(Stream stream);
// A point whose time is kept, for an Interval.
StreamEvent record_timed_event(Stream stream);
// Work enqueued on `stream` from now on runs after `event`.
void wait_event(Stream stream, const StreamEvent& event);
// Blocks the host until `event` has been reached.
void synchronize(const StreamEvent& event);
// Blocks the host until all work of the current stream of `device` is done.
void synchronize(Device device);

}  // namespace tenon
