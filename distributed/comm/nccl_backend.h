// Collectives of CUDA tensors over NCCL. Part of the CUDA plug-in; includes nccl.h: only for
// nccl_*.cc.
//
// Two communicators with a high-priority stream each, so that FSDP's gathers and reductions pass
// each other: one for gathers, broadcasts and exchanges, one for reductions. A collective
// waits on an event of the compute stream, and wait() lets the compute stream wait on the
// collective's: no host ever blocks. A watchdog thread sees errors, lost peers and collectives that
// do not end.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/core/stream.h"
#include "tenon/distributed/comm/backend.h"

namespace tenon::comm {

// One communicator and its stream.
struct NcclLane {
  ncclComm_t comm = nullptr;
  Stream stream;
};

// What registered memory needs as long as it lives, longer perhaps than the group.
struct NcclLanes {
  ~NcclLanes();
  std::array<NcclLane, 2> lanes;
  bool aborted = false;
};

class NcclBackend : public DeviceSide {
 public:
  // Collective over `host`, which carries the unique ids.
  NcclBackend(std::shared_ptr<Backend> host, Device device);
  ~NcclBackend() override;

  void launch(const std::shared_ptr<Request>& request) override;
  void wait(Request& request) override;
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) override;

 private:
  // A collective that has been enqueued and may not have ended.
  struct Flight {
    std::shared_ptr<Request> request;  // while its tensors must live
    std::weak_ptr<Request> watched;
    StreamEvent end;
    std::string text;
    int64_t deadline_ns;
  };

  void open_lane(NcclLane& lane);
  const NcclLane& lane_of(const Operation& operation) const;
  void enqueue(const Operation& operation, const Signature& call, const NcclLane& lane) const;
  void check(ncclResult_t result, const char* op, const char* call) const;
  void throw_failure() const;
  void settle_dropped();
  void watch();
  std::string trouble();
  void fail(const std::string& text);

  const double timeout_;  // seconds
  const std::shared_ptr<NcclLanes> lanes_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Flight> flights_;
  std::string failure_;
  bool closing_ = false;
  std::thread watchdog_;  // last: it uses the rest
};

}  // namespace tenon::comm
