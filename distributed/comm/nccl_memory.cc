#include "tenon/distributed/comm/nccl_memory.h"

#include <map>
#include <mutex>
#include <utility>

#include "tenon/core/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/core/cuda/device_table.h"
#include "tenon/core/rank_context.h"

namespace tenon::comm {
namespace {

class NcclMemory : public MemorySource {
 public:
  NcclMemory(std::shared_ptr<NcclLanes> lanes, Device device)
      : lanes_(std::move(lanes)), device_(device) {}

  void* allocate(size_t bytes) override {
    cuda::select(device_.index);
    void* data = nullptr;
    const ncclResult_t result = ncclMemAlloc(&data, bytes);
    TENON_CHECK(result == ncclSuccess, "memory", "out of memory on ", device_, ": ncclMemAlloc of ",
                bytes, " bytes failed: ", ncclGetErrorString(result), "\n",
                rank_context().memory->table());
    // Without registration everything works too, by way of NCCL's own buffers.
    Handles handles{};
    for (size_t i = 0; i < handles.size(); ++i) {
      if (ncclCommRegister(lanes_->lanes[i].comm, data, bytes, &handles[i]) != ncclSuccess) {
        handles[i] = nullptr;
      }
    }
    const std::lock_guard lock(mutex_);
    handles_[data] = handles;
    return data;
  }

  // Memory is given back in the order of the host: the device must have done with it.
  void deallocate(void* data, size_t) override {
    cuda::select(device_.index);
    static_cast<void>(cudaDeviceSynchronize());
    Handles handles{};
    {
      const std::lock_guard lock(mutex_);
      handles = handles_.extract(data).mapped();
    }
    for (size_t i = 0; i < handles.size(); ++i) {
      if (handles[i] == nullptr || lanes_->lanes[i].comm == nullptr) continue;
      static_cast<void>(ncclCommDeregister(lanes_->lanes[i].comm, handles[i]));
    }
    static_cast<void>(ncclMemFree(data));
  }

 private:
  using Handles = std::array<void*, 2>;

  const std::shared_ptr<NcclLanes> lanes_;
  const Device device_;
  std::mutex mutex_;
  std::map<void*, Handles> handles_;
};

}  // namespace

std::shared_ptr<MemorySource> registered_memory(std::shared_ptr<NcclLanes> lanes, Device device) {
  return std::make_shared<NcclMemory>(std::move(lanes), device);
}

}  // namespace tenon::comm
