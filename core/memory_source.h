// Where the bytes of a Storage come from. The default is the caching allocator of the device;
// others are shared windows, mapped files, pinned or registered memory.
#pragma once

#include <cstddef>
#include <memory>

#include "tenon/core/device.h"

namespace tenon {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* data, size_t bytes) = 0;
};

// The process's caching allocator for `device`.
std::shared_ptr<MemorySource> caching_source(Device device);

}  // namespace tenon
