// What a device library must provide below kernels: raw memory, copies, streams.
#pragma once

#include <cstddef>

#include "tenon/core/device.h"
#include "tenon/core/stream.h"

namespace tenon {

class Runtime {
 public:
  virtual ~Runtime() = default;
  // Memory straight from the device, aligned to at least 2 MiB where `bytes` is that large.
  virtual void* allocate(int device_index, size_t bytes) = 0;
  virtual void deallocate(int device_index, void* data, size_t bytes) = 0;
  // Copies `bytes`; either side may be host memory.
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  virtual StreamEvent record_event(Stream stream) = 0;
  virtual void wait_event(Stream stream, StreamEvent event) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual int device_count() const = 0;
};

// The runtime of a device type; an Error when none is loaded.
Runtime& runtime(DeviceType type);
bool has_runtime(DeviceType type);
// Called once by each device library.
bool set_runtime(DeviceType type, Runtime* runtime);

// Copies between any two places.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);

}  // namespace tenon
