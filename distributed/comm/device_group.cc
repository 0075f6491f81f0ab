#include "tenon/distributed/comm/device_group.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/staging_backend.h"

namespace tenon::comm {
namespace {

constinit std::atomic<DeviceBackendFactory> nccl_factory{nullptr};

class DeviceGroup : public Backend {
 public:
  DeviceGroup(std::shared_ptr<Backend> host, std::shared_ptr<Backend> on_device, Device device)
      : host_(std::move(host)),
        on_device_(std::move(on_device)),
        messages_(std::make_shared<StagingBackend>(host_, device)),
        device_(device) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool serves(Device device) const override { return device == kCpu || device == device_; }
  std::string serving() const override { return str("a tensor on the cpu or on ", device_); }

  void launch(const std::shared_ptr<Request>& request) override {
    side_of(*request).launch(request);
  }
  void wait(Request& request) override { side_of(request).wait(request); }

  std::shared_ptr<Backend> split(int color, int key) override {
    const std::shared_ptr<Backend> part = host_->split(color, key);
    return part ? add_device(part, device_) : nullptr;
  }
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) override {
    return (device == kCpu ? host_ : on_device_)->allocate(bytes, category, device);
  }
  std::string note() const override {
    const std::string first = host_->note();
    const std::string second = on_device_->note();
    return first + (first.empty() || second.empty() ? "" : "; ") + second;
  }
  void abort(const Error& error) override { host_->abort(error); }

 private:
  Backend& side_of(const Request& request) const {
    if (!request.on_device()) return *host_;
    return is_point_to_point(request.signature().op) ? *messages_ : *on_device_;
  }

  const std::shared_ptr<Backend> host_;
  const std::shared_ptr<Backend> on_device_;
  // Ranks may receive before they send. In a stream of NCCL's that order would wait for itself.
  const std::shared_ptr<Backend> messages_;
  const Device device_;
};

// Whether every rank has a device to itself. Numbers of devices mean something within a node only.
bool devices_differ(ProcessGroup group, Device device) {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  const auto node = static_cast<int64_t>(std::hash<std::string_view>{}(name.data()));
  const Tensor mine = from_data<int64_t>({node, device.index}, {2}, Category::other, kCpu);
  const Tensor all =
      empty({group.size(), 2}, {.dtype = DType::i64, .device = kCpu, .category = Category::other});
  group.all_gather(all, mine, {.tag = "setup", .blocking = true}).wait();
  std::set<std::pair<int64_t, int64_t>> places;
  const auto* values = all.data<int64_t>();
  for (int i = 0; i < group.size(); ++i) places.emplace(values[2 * i], values[2 * i + 1]);
  return places.size() == static_cast<size_t>(group.size());
}

// $TENON_CUDA_COMM chooses for tests and where NCCL does not work: nccl or mpi.
bool wants_nccl(const std::shared_ptr<Backend>& host, Device device) {
  const char* text = std::getenv("TENON_CUDA_COMM");
  const std::string_view choice = text != nullptr ? text : "";
  TENON_CHECK(choice.empty() || choice == "nccl" || choice == "mpi", "group",
              "wrong TENON_CUDA_COMM: given '", choice, "', wanted nccl or mpi");
  const bool possible = devices_differ(ProcessGroup(host), device);
  TENON_CHECK(possible || choice != "nccl", "group",
              "two ranks share a device, which NCCL does not allow: give each rank its own, or "
              "leave TENON_CUDA_COMM empty");
  return possible && choice != "mpi";
}

}  // namespace

std::shared_ptr<Backend> add_device(const std::shared_ptr<Backend>& host, Device device) {
  static_cast<void>(runtime(device.type));  // opens the plug-in, which brings the factory
  const DeviceBackendFactory factory = nccl_factory;
  std::shared_ptr<Backend> on_device;
  if (wants_nccl(host, device)) {
    TENON_CHECK(factory != nullptr, "group", "this CUDA plug-in has no NCCL");
    on_device = factory(host, device);
  } else {
    on_device = std::make_shared<StagingBackend>(host, device);
  }
  auto group = std::make_shared<DeviceGroup>(host, std::move(on_device), device);
  group->set_delay(host->delay());
  return group;
}

bool set_nccl_factory(DeviceBackendFactory factory) {
  nccl_factory = factory;
  return true;
}

}  // namespace tenon::comm
