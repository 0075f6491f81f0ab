// What a device library must provide below kernels: raw memory, copies, streams.
#pragma once

#include <cstddef>
#include <string>

#include "tenon/core/device.h"
#include "tenon/core/stream.h"

namespace tenon {

class Runtime {
 public:
  virtual ~Runtime() = default;
  // Memory straight from the device, aligned to at least 2 MiB where `bytes` is that large; null
  // when there is not enough.
  virtual void* allocate(int device_index, size_t bytes) = 0;
  virtual void deallocate(int device_index, void* data, size_t bytes) = 0;
  // What a message about missing memory should say: free and total bytes.
  virtual std::string memory_report(int device_index) = 0;
  // The caching allocator hands out a part of its memory, or takes it back.
  virtual void mark_allocated(void*, size_t) {}
  virtual void mark_freed(void*, size_t) {}

  // Copies in the order of `stream`; either side may be host memory, which the caller may use
  // again when this returns.
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  // The same without waiting. A host side must be pinned and stay as it is until the copy is done.
  virtual void copy_async(void* to, const void* from, size_t bytes, Stream stream) = 0;
  virtual void zero(void* data, size_t bytes, Stream stream) = 0;
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void deallocate_pinned(void* data, size_t bytes) = 0;

  virtual Stream create_stream(int device_index, StreamPriority priority) = 0;
  virtual StreamEvent record_event(Stream stream) = 0;
  virtual StreamEvent record_timed_event(Stream stream) = 0;
  // Between timed events; 0 until both have been reached.
  virtual int64_t elapsed_ns(const StreamEvent& from, const StreamEvent& to) = 0;
  virtual void wait_event(Stream stream, const StreamEvent& event) = 0;
  virtual void synchronize(const StreamEvent& event) = 0;
  virtual void synchronize(Stream stream) = 0;

  virtual int device_count() const = 0;
  // The device, its driver and the libraries, with versions, for one line at start-up.
  virtual std::string describe(int device_index) = 0;
};

// The runtime of a device type. The first question about cuda opens its plug-in (plugin.h); an
// Error says why there is none.
Runtime& runtime(DeviceType type);
bool has_runtime(DeviceType type);
// Called once by each device library.
bool set_runtime(DeviceType type, Runtime* runtime);

// Copies between any two places, in the order of the device's current stream. Host memory may be
// used again when it returns.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);

}  // namespace tenon
