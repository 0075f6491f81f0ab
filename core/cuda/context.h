// What CUDA kernels ask of the runtime: the stream to enqueue on, the device's properties, and
// scratch memory. Enqueueing never waits for the device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "tenon/core/device.h"
#include "tenon/core/memory_source.h"

namespace tenon {
class Tensor;
}

namespace tenon::cuda {

// Makes `device` the calling thread's CUDA device and returns its current stream.
cudaStream_t stream_of(Device device);
cudaStream_t stream_of(const Tensor& tensor);

const cudaDeviceProp& properties(Device device);

// Whether kernels and libraries must give the same bits in every run ($TENON_DETERMINISTIC=1).
// Our own kernels always do; cuDNN is asked for such algorithms only.
bool deterministic();

// Memory for the time of an op, from the caching allocator but not counted under a category. It is
// given back when the op has been enqueued: what comes later on the compute stream may have it.
class Scratch {
 public:
  Scratch(Device device, size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  const std::shared_ptr<MemorySource> source_;
  const size_t bytes_;
  void* const data_;
};

// Memory that a library works in, at least `bytes`, one for each stream; it stays until the end.
void* workspace(Device device, cudaStream_t stream, size_t bytes);

}  // namespace tenon::cuda
