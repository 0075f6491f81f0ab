// The CUDA device: memory, copies, streams and events. One compute stream for each device, which
// does not synchronize with CUDA's own default stream.
#include <cuda_runtime.h>

#include <string>

#include "tenon/core/check.h"
#include "tenon/core/cuda/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/core/cuda/device_table.h"
#include "tenon/core/cuda/fault.h"
#include "tenon/core/cuda/libraries.h"
#include "tenon/core/cuda/marks.h"
#include "tenon/core/runtime.h"

namespace tenon::cuda {
namespace {

// Where a pointer's memory is.
enum class Place { device, pinned, pageable };

Place place_of(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), "copy", "cudaPointerGetAttributes");
  switch (attributes.type) {
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return Place::device;
    case cudaMemoryTypeHost:
      return Place::pinned;
    default:
      return Place::pageable;
  }
}

class CudaRuntime : public Runtime {
 public:
  explicit CudaRuntime(int devices) : devices_(devices) {}

  void* allocate(int index, size_t bytes) override {
    select(index);
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    check(error, "memory", "cudaMalloc");
    return data;
  }
  void deallocate(int index, void* data, size_t) override {
    select(index);
    check(cudaFree(data), "memory", "cudaFree");
  }
  std::string memory_report(int index) override {
    select(index);
    size_t free = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "memory", "cudaMemGetInfo");
    return str(free, " free of ", total);
  }
  void mark_allocated(void* data, size_t bytes) override { cuda::mark_allocated(data, bytes); }
  void mark_freed(void* data, size_t bytes) override { cuda::mark_freed(data, bytes); }

  void copy(void* to, const void* from, size_t bytes, Stream stream) override {
    copy_async(to, from, bytes, stream);
    // A pageable source has been read when the call returns.
    if (place_of(to) != Place::device || place_of(from) == Place::pinned) synchronize(stream);
  }
  void copy_async(void* to, const void* from, size_t bytes, Stream stream) override {
    select(stream.device.index);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle_of(stream)), "copy",
          "cudaMemcpyAsync");
  }
  void zero(void* data, size_t bytes, Stream stream) override {
    select(stream.device.index);
    check(cudaMemsetAsync(data, 0, bytes, handle_of(stream)), "zero", "cudaMemsetAsync");
  }
  void* allocate_pinned(size_t bytes) override {
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "memory", "cudaHostAlloc");
    return data;
  }
  void deallocate_pinned(void* data, size_t) override {
    check(cudaFreeHost(data), "memory", "cudaFreeHost");
  }

  Stream create_stream(int index, StreamPriority priority) override {
    return add_stream(index, priority);
  }
  StreamEvent record_event(Stream stream) override { return record(stream, EventTiming::off); }
  StreamEvent record_timed_event(Stream stream) override { return record(stream, EventTiming::on); }
  int64_t elapsed_ns(const StreamEvent& from, const StreamEvent& to) override {
    for (const StreamEvent* event : {&from, &to}) {
      if (cudaEventQuery(handle_of(*event)) != cudaSuccess) return 0;
    }
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, handle_of(from), handle_of(to)), "event",
          "cudaEventElapsedTime");
    return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  }
  void wait_event(Stream stream, const StreamEvent& event) override {
    if (event.handle == nullptr) return;
    select(stream.device.index);
    check(cudaStreamWaitEvent(handle_of(stream), handle_of(event), 0), "event",
          "cudaStreamWaitEvent");
  }
  void synchronize(const StreamEvent& event) override {
    if (event.handle == nullptr) return;
    check(cudaEventSynchronize(handle_of(event)), "synchronize", "cudaEventSynchronize");
    throw_fault(event.device);
  }
  void synchronize(Stream stream) override {
    select(stream.device.index);
    check(cudaStreamSynchronize(handle_of(stream)), "synchronize", "cudaStreamSynchronize");
    throw_fault(stream.device);
  }

  int device_count() const override { return devices_; }
  std::string describe(int index) override {
    const cudaDeviceProp& device = properties({DeviceType::cuda, index});
    int driver = 0;
    int runtime_version = 0;
    check(cudaDriverGetVersion(&driver), "device", "cudaDriverGetVersion");
    check(cudaRuntimeGetVersion(&runtime_version), "device", "cudaRuntimeGetVersion");
    return str("cuda:", index, " ", device.name, " (compute ", device.major, ".", device.minor,
               ", ", device.multiProcessorCount, " multiprocessors, ", device.totalGlobalMem >> 20,
               " MiB), driver ", cuda_version(driver), ", runtime ", cuda_version(runtime_version),
               ", ", libraries());
  }

 private:
  static StreamEvent record(Stream stream, EventTiming timing) {
    select(stream.device.index);
    StreamEvent event{stream.device, take_event(stream.device.index, timing)};
    check(cudaEventRecord(handle_of(event), handle_of(stream)), "event", "cudaEventRecord");
    return event;
  }

  const int devices_;
};

std::string count_devices(int& count) {
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  static_cast<void>(cudaGetLastError());
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    return str("driver too old: it supports CUDA ", cuda_version(driver), ", this build needs ",
               cuda_version(CUDART_VERSION), " (update NVIDIA's driver, or use the cpu)");
  }
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    return "a driver but no CUDA device (is one visible? see CUDA_VISIBLE_DEVICES)";
  }
  return str("cudaGetDeviceCount failed: ", cudaGetErrorName(error), ", ",
             cudaGetErrorString(error));
}

}  // namespace
}  // namespace tenon::cuda

// What core/plugin.cc calls: null when the device is ready, else why not.
extern "C" __attribute__((visibility("default"))) const char* tenon_cuda_start() {
  static std::string reason;
  int count = 0;
  reason = tenon::cuda::count_devices(count);
  if (!reason.empty()) return reason.c_str();
  tenon::set_runtime(tenon::DeviceType::cuda, new tenon::cuda::CudaRuntime(count));
  return nullptr;
}
