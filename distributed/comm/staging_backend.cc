#include "tenon/distributed/comm/staging_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tenon/core/runtime.h"

namespace tenon::comm {
namespace {

// Pinned memory, kept for the next request of the same size: making it costs milliseconds.
class PinnedSource : public MemorySource {
 public:
  explicit PinnedSource(DeviceType type) : runtime_(runtime(type)) {}
  ~PinnedSource() override {
    for (auto& [bytes, data] : free_) runtime_.deallocate_pinned(data, bytes);
  }
  void* allocate(size_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(bytes); found != free_.end()) {
        void* const data = found->second;
        free_.erase(found);
        return data;
      }
    }
    return runtime_.allocate_pinned(std::max<size_t>(bytes, 1));
  }
  void deallocate(void* data, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    free_.emplace(bytes, data);
  }

 private:
  Runtime& runtime_;
  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
};

void copy_on(Stream stream, const Tensor& to, const Tensor& from) {
  if (from.numel() == 0) return;
  runtime(stream.device.type).copy_async(to.raw_data(), from.raw_data(), from.nbytes(), stream);
}

}  // namespace

StagingBackend::StagingBackend(std::shared_ptr<Backend> host, Device device)
    : DeviceSide(std::move(host), device),
      stream_(create_stream(device, StreamPriority::high)),
      pinned_(std::make_shared<PinnedSource>(device.type)) {}

Tensor StagingBackend::host_copy(const Tensor& tensor) const {
  if (!tensor.defined()) return {};
  return Tensor(std::make_shared<Storage>(tensor.nbytes(), kCpu, Category::other, pinned_),
                tensor.dtype(), tensor.shape());
}

// Requests whose Work was dropped: their tensors may go once the compute stream waits for them.
void StagingBackend::settle_dropped() {
  std::erase_if(pending_, [](const std::shared_ptr<Request>& request) {
    if (request.use_count() > 1 || !request->done()) return false;
    wait_event(current_stream(request->ready().device), request->ready());
    return true;
  });
}

void StagingBackend::launch(const std::shared_ptr<Request>& request) {
  settle_dropped();
  const Operation& operation = request->operation();
  const Tensor output = operation.output;
  const Tensor input = operation.input;
  const bool in_place = output.defined() && input.defined() && output.is_same(input);
  Staging staging;
  staging.output = host_copy(output);
  staging.input = in_place ? staging.output : host_copy(input);
  // What the collective reads: the input, and a broadcast's root its output.
  wait_event(stream_, record_event(current_stream(device_)));
  if (input.defined()) copy_on(stream_, staging.input, input);
  if (operation.op == Op::broadcast && operation.peer == rank() && !in_place) {
    copy_on(stream_, staging.output, output);
  }
  const StreamEvent copied = record_event(stream_);
  staging.before = [copied] { synchronize(copied); };
  staging.after = [request = request.get(), stream = stream_, output, host = staging.output] {
    if (output.defined()) copy_on(stream, output, host);
    request->set_ready(record_event(stream));
  };
  request->stage(std::move(staging));
  pending_.push_back(request);
  host_->launch(request);
}

void StagingBackend::wait(Request& request) {
  if (!request.done()) host_->wait(request);
  if (!request.staged()) return;  // waited for before
  wait_event(current_stream(device_), request.ready());
  request.release_staging();
  std::erase_if(pending_, [&](const auto& pending) { return pending.get() == &request; });
}

std::shared_ptr<Storage> StagingBackend::allocate(size_t bytes, Category category, Device device) {
  return std::make_shared<Storage>(bytes, device, category);
}

}  // namespace tenon::comm
