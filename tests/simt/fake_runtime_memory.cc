// Fake CUDA runtime: memory and copies. A pageable source is read when the call is made, a pinned
// one when the task runs; a copy to pageable memory is done when the call returns.
#include <cstring>
#include <memory>
#include <vector>

#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/fake_runtime.h"
#include "tenon/tests/simt/hooks.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/streams.h"

namespace simt {
namespace {

cudaError_t allocate(void** address, void* memory) {
  if (memory == nullptr) return failed(cudaErrorMemoryAllocation);
  *address = memory;
  return cudaSuccess;
}

bool fits(cudaMemcpyKind kind, Space to, Space from) {
  const bool to_device = to == Space::device, from_device = from == Space::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

// `rows` rows of `bytes`, each row `to_pitch` and `from_pitch` bytes after the one before it.
struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t bytes;
  size_t rows;

  void run() const {
    for (size_t i = 0; i < rows; ++i) {
      std::memcpy(to + i * to_pitch, from + i * from_pitch, bytes);
      if (hooks.copied != nullptr) hooks.copied(to + i * to_pitch, from + i * from_pitch, bytes);
    }
  }
};

cudaError_t enqueue_copy(const char* what, Copy copy, cudaMemcpyKind kind, cudaStream_t handle) {
  CUstream_st* stream = resolve(handle);
  if (stream == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (copy.bytes == 0 || copy.rows == 0) return cudaSuccess;
  const Space to = space_of(copy.to), from = space_of(copy.from);
  if (!fits(kind, to, from)) return failed(cudaErrorInvalidValue);
  std::vector<Access> accesses;
  if (to != Space::pageable) {
    accesses.push_back({copy.to, copy.bytes, true, copy.rows, copy.to_pitch});
  }
  std::shared_ptr<std::vector<char>> staged;
  if (from != Space::pageable) {
    accesses.push_back({copy.from, copy.bytes, false, copy.rows, copy.from_pitch, true});
  } else {
    staged = std::make_shared<std::vector<char>>(copy.bytes * copy.rows);
    Copy{staged->data(), copy.bytes, copy.from, copy.from_pitch, copy.bytes, copy.rows}.run();
    copy.from = staged->data();
    copy.from_pitch = copy.bytes;
  }
  enqueue(stream, what, std::move(accesses), [copy, staged] { copy.run(); });
  if (to == Space::pageable) wait_for_stream(stream);
  return cudaSuccess;
}

}  // namespace
}  // namespace simt

using simt::failed;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  if (bytes == 0) {
    *address = nullptr;
    return cudaSuccess;
  }
  return simt::allocate(address, simt::allocate_device(simt::current_device(), bytes));
}

cudaError_t cudaFree(void* address) {
  SIMT_MAY_FAIL(cudaErrorIllegalAddress);
  if (address == nullptr) return cudaSuccess;
  const int device = simt::device_of_address(address);
  if (device < 0) return failed(cudaErrorInvalidValue);
  simt::wait_for_device(device);
  return simt::free_block(address, simt::Space::device) ? cudaSuccess
                                                        : failed(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  return simt::allocate(address, simt::allocate_pinned(bytes));
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  SIMT_MAY_FAIL(cudaErrorMemoryAllocation);
  return simt::allocate(address, simt::allocate_pinned(bytes));
}

cudaError_t cudaFreeHost(void* address) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  if (address == nullptr) return cudaSuccess;
  for (int i = 0; i < simt::settings().devices; ++i) simt::wait_for_device(i);
  return simt::free_block(address, simt::Space::pinned) ? cudaSuccess
                                                        : failed(cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  if (simt::space_of(host) != simt::Space::pinned) return failed(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  cudaPointerAttributes a{};
  const simt::Space space = simt::space_of(address);
  const bool known = simt::block_at(address).has_value();
  a.device = known ? simt::device_of_address(address) : -2;
  a.type = !known                         ? cudaMemoryTypeUnregistered
           : space == simt::Space::pinned ? cudaMemoryTypeHost
                                          : cudaMemoryTypeDevice;
  if (known && space == simt::Space::pinned) a.device = simt::current_device();
  a.devicePointer = known ? const_cast<void*>(address) : nullptr;
  a.hostPointer = space == simt::Space::device ? nullptr : const_cast<void*>(address);
  *attributes = a;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  return simt::enqueue_copy(
      "cudaMemcpyAsync",
      {static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1}, kind,
      stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  return simt::enqueue_copy(
      "cudaMemcpy2DAsync",
      {static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, height},
      kind, stream);
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  if (simt::resolve(stream) == nullptr) return failed(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (simt::space_of(address) == simt::Space::pageable) return failed(cudaErrorInvalidValue);
  simt::enqueue(stream, "cudaMemsetAsync", {{address, bytes, true}},
                [=] { std::memset(address, value, bytes); });
  return cudaSuccess;
}
