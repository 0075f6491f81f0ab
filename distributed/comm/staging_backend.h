// Collectives of device tensors through pinned host memory and the host's backend: copy out, let
// the host do it, copy back, all in the order of launching. For several ranks on one device, and
// where NCCL is missing. The copies are enqueued on a stream of their own and compute goes on
// meanwhile.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/core/memory_source.h"
#include "tenon/core/stream.h"
#include "tenon/distributed/comm/backend.h"

namespace tenon::comm {

class StagingBackend : public DeviceSide {
 public:
  StagingBackend(std::shared_ptr<Backend> host, Device device);

  void launch(const std::shared_ptr<Request>& request) override;
  void wait(Request& request) override;
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) override;
  std::string note() const override {
    return "ranks share a device: collectives go through the host's memory";
  }

 private:
  Tensor host_copy(const Tensor& tensor) const;
  void settle_dropped();

  const Stream stream_;
  const std::shared_ptr<MemorySource> pinned_;
  std::vector<std::shared_ptr<Request>> pending_;  // not waited for yet
};

}  // namespace tenon::comm
