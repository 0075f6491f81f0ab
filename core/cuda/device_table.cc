#include "tenon/core/cuda/device_table.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/core/cuda/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/core/tensor.h"

namespace tenon::cuda {
namespace {

constexpr size_t kMaxDevices = 64;
constexpr size_t kMaxStreams = 256;

struct DeviceEntry {
  std::once_flag once;
  cudaDeviceProp properties{};
  std::array<std::atomic<cudaStream_t>, kMaxStreams> streams{};
  std::mutex mutex;  // of what follows
  size_t stream_count = 0;
  std::array<std::vector<cudaEvent_t>, 2> free_events;  // by EventTiming
  std::map<cudaStream_t, std::pair<void*, size_t>> workspaces;
  FaultRecord* fault = nullptr;
};

// Not destroyed: tensors with static lifetime may be freed after main.
std::array<DeviceEntry, kMaxDevices>& table() {
  static auto* const entries = new std::array<DeviceEntry, kMaxDevices>();
  return *entries;
}

cudaStream_t make_stream(StreamPriority priority) {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "stream",
        "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? highest : lowest),
        "stream", "cudaStreamCreateWithPriority");
  return stream;
}

uint64_t keep_stream(DeviceEntry& entry, StreamPriority priority) {
  const std::lock_guard lock(entry.mutex);
  const size_t id = entry.stream_count;
  TENON_CHECK(id < kMaxStreams, "stream", "too many streams: given ", id + 1, ", wanted at most ",
              kMaxStreams);
  entry.streams[id] = make_stream(priority);
  ++entry.stream_count;
  return id;
}

void open(DeviceEntry& entry, int index) {
  check(cudaSetDevice(index), "device", "cudaSetDevice");
  check(cudaGetDeviceProperties(&entry.properties, index), "device", "cudaGetDeviceProperties");
  void* record = nullptr;
  check(cudaHostAlloc(&record, sizeof(FaultRecord), cudaHostAllocPortable | cudaHostAllocMapped),
        "device", "cudaHostAlloc");
  entry.fault = new (record) FaultRecord{};
  keep_stream(entry, StreamPriority::normal);  // number 0, the compute stream
}

// The entry of a device that is in use.
DeviceEntry& entry_of(int index) {
  TENON_CHECK(index >= 0 && static_cast<size_t>(index) < kMaxDevices, "device",
              "no such device: given cuda:", index);
  DeviceEntry& entry = table()[static_cast<size_t>(index)];
  std::call_once(entry.once, [&] {
    int before = 0;
    check(cudaGetDevice(&before), "device", "cudaGetDevice");
    open(entry, index);
    check(cudaSetDevice(before), "device", "cudaSetDevice");
  });
  return entry;
}

}  // namespace

void select(int index) {
  entry_of(index);
  thread_local int selected = -1;
  if (selected == index) return;
  check(cudaSetDevice(index), "device", "cudaSetDevice");
  selected = index;
}

Stream add_stream(int index, StreamPriority priority) {
  select(index);
  return {{DeviceType::cuda, index}, keep_stream(entry_of(index), priority)};
}

cudaStream_t handle_of(Stream stream) {
  return entry_of(stream.device.index).streams[stream.id].load(std::memory_order_acquire);
}

std::shared_ptr<void> take_event(int index, EventTiming timing) {
  DeviceEntry& entry = entry_of(index);
  std::vector<cudaEvent_t>& free = entry.free_events[timing == EventTiming::on ? 1 : 0];
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(entry.mutex);
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr) {
    select(index);
    const unsigned flags = timing == EventTiming::on ? cudaEventDefault : cudaEventDisableTiming;
    check(cudaEventCreateWithFlags(&event, flags), "event", "cudaEventCreateWithFlags");
  }
  return {event, [&entry, &free](void* used) {
            const std::lock_guard lock(entry.mutex);
            free.push_back(static_cast<cudaEvent_t>(used));
          }};
}

cudaStream_t stream_of(Device device) {
  select(device.index);
  return handle_of(current_stream(device));
}

cudaStream_t stream_of(const Tensor& tensor) { return stream_of(tensor.device()); }

const cudaDeviceProp& properties(Device device) { return entry_of(device.index).properties; }

bool deterministic() {
  static const bool on = [] {
    const char* text = std::getenv("TENON_DETERMINISTIC");
    return text != nullptr && text[0] == '1';
  }();
  return on;
}

Scratch::Scratch(Device device, size_t bytes)
    : source_(caching_source(device)), bytes_(bytes), data_(source_->allocate(bytes)) {}

Scratch::~Scratch() { source_->deallocate(data_, bytes_); }

void* workspace(Device device, cudaStream_t stream, size_t bytes) {
  DeviceEntry& entry = entry_of(device.index);
  const std::lock_guard lock(entry.mutex);
  auto& [data, size] = entry.workspaces[stream];
  if (size >= bytes) return data;
  // Work that is under way may still use the old one: cudaFree waits for it.
  if (data != nullptr) check(cudaFree(data), "workspace", "cudaFree");
  data = nullptr;
  size = 0;
  check(cudaMalloc(&data, bytes), "workspace", "cudaMalloc");
  size = bytes;
  return data;
}

FaultSink fault_sink(Device device, const FaultText& text) {
  return {entry_of(device.index).fault, text};
}

void throw_fault(Device device) {
  FaultRecord& record = *entry_of(device.index).fault;
  if (__atomic_load_n(&record.raised, __ATOMIC_ACQUIRE) == 0) return;
  const FaultRecord fault = record;
  __atomic_store_n(&record.raised, 0u, __ATOMIC_RELEASE);
  const std::string place =
      fault.position < 0 ? "" : str(" ", fault.text.where, " ", fault.position);
  fail(fault.text.op, fault.text.what, " out of range: given ", fault.value, place,
       ", wanted 0 to ", fault.limit - 1);
}

}  // namespace tenon::cuda
