#include "tenon/core/runtime.h"

#include <array>
#include <atomic>

#include "tenon/core/check.h"
#include "tenon/core/plugin.h"

namespace tenon {
namespace {

constinit std::array<std::atomic<Runtime*>, kDeviceTypeCount> runtimes{};
thread_local std::array<Stream, kDeviceTypeCount> streams{Stream{{DeviceType::cpu, 0}, 0},
                                                          Stream{{DeviceType::cuda, 0}, 0}};

}  // namespace

bool has_runtime(DeviceType type) {
  if (type == DeviceType::cuda) static_cast<void>(cuda_plugin());
  return runtimes[static_cast<size_t>(type)] != nullptr;
}

Runtime& runtime(DeviceType type) {
  Runtime* found = runtimes[static_cast<size_t>(type)];
  if (found == nullptr && has_runtime(type)) found = runtimes[static_cast<size_t>(type)];
  TENON_CHECK(found != nullptr, "runtime", "no ", type, " device in this process: ",
              type == DeviceType::cuda ? cuda_plugin().reason : "no library of it is linked");
  return *found;
}

bool set_runtime(DeviceType type, Runtime* runtime) {
  runtimes[static_cast<size_t>(type)] = runtime;
  return true;
}

Stream current_stream(Device device) {
  Stream stream = streams[static_cast<size_t>(device.type)];
  if (stream.device != device) stream = Stream{device, 0};
  return stream;
}
void set_current_stream(Stream stream) {
  streams[static_cast<size_t>(stream.device.type)] = stream;
}
Stream create_stream(Device device, StreamPriority priority) {
  return runtime(device.type).create_stream(device.index, priority);
}
StreamEvent record_event(Stream stream) { return runtime(stream.device.type).record_event(stream); }
StreamEvent record_timed_event(Stream stream) {
  return runtime(stream.device.type).record_timed_event(stream);
}
int64_t Interval::ns() const {
  if (begin.handle == nullptr) return 0;
  return runtime(begin.device.type).elapsed_ns(begin, end);
}
void wait_event(Stream stream, const StreamEvent& event) {
  runtime(stream.device.type).wait_event(stream, event);
}
void synchronize(const StreamEvent& event) { runtime(event.device.type).synchronize(event); }
void synchronize(Device device) { runtime(device.type).synchronize(current_stream(device)); }

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) return;
  const Device device = to_device.type == DeviceType::cpu ? from_device : to_device;
  runtime(device.type).copy(to, from, bytes, current_stream(device));
}

}  // namespace tenon
