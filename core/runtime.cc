#include "tenon/core/runtime.h"

#include <array>
#include <atomic>

#include "tenon/core/check.h"

namespace tenon {
namespace {

constinit std::array<std::atomic<Runtime*>, kDeviceTypeCount> runtimes{};
thread_local std::array<Stream, kDeviceTypeCount> streams{Stream{{DeviceType::cpu, 0}, 0},
                                                          Stream{{DeviceType::cuda, 0}, 0}};

}  // namespace

bool has_runtime(DeviceType type) { return runtimes[static_cast<size_t>(type)] != nullptr; }

Runtime& runtime(DeviceType type) {
  Runtime* const found = runtimes[static_cast<size_t>(type)];
  TENON_CHECK(found != nullptr, "runtime", "no ", type, " device in this process: wanted cpu");
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
StreamEvent record_event(Stream stream) { return runtime(stream.device.type).record_event(stream); }
void wait_event(Stream stream, StreamEvent event) {
  runtime(stream.device.type).wait_event(stream, event);
}
void synchronize(Device device) { runtime(device.type).synchronize(current_stream(device)); }

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (bytes == 0) return;
  const Device device = to_device.type == DeviceType::cpu ? from_device : to_device;
  runtime(device.type).copy(to, from, bytes, current_stream(device));
}

}  // namespace tenon
