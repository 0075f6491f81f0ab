// The part of DDP that does not depend on the model's type: gradients live in flat buckets, and a
// bucket is all-reduced as soon as its last gradient and all buckets before it are complete.
//
// When gradients are synchronized is decided when backward runs. Buckets start in reverse order of
// registration and are rebuilt once, before the second forward, in the order in which rank 0's
// gradients arrived. With one rank no collective is issued.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/stream.h"
#include "tenon/distributed/comm/process_group.h"
#include "tenon/distributed/ddp/buckets.h"
#include "tenon/distributed/grad_countdown.h"
#include "tenon/nn/module.h"

namespace tenon {

struct DdpOptions {
  size_t bucket_bytes = size_t{25} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;
  // A parameter without a gradient is an Error that names it; with this it counts as zero, and one
  // that no rank used keeps no gradient (costs one small all-reduce per backward).
  bool allow_unused = false;
  // Before a training forward buffers are made equal as their BufferSync says.
  bool sync_buffers = true;
};

// Of one synchronized backward. A device knows times once it has got there: until then they are 0.
struct DdpStats {
  int64_t bytes = 0;
  std::vector<Work> works;  // the buckets' collectives, one each
  Interval exposed = {};    // in which the end of backward waited for them

  // The collectives' own time, summed.
  int64_t comm_ns() const;
};

// Counts while it lives.
class NoSync {
 public:
  explicit NoSync(int& depth) : depth_(&depth) { ++depth; }
  NoSync(NoSync&& other) noexcept : depth_(std::exchange(other.depth_, nullptr)) {}
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync() {
    if (depth_ != nullptr) --*depth_;
  }

 private:
  int* depth_;
};

class DdpReducer {
 public:
  DdpReducer(Module& model, ProcessGroup group, DdpOptions options);
  ~DdpReducer();
  DdpReducer(const DdpReducer&) = delete;
  DdpReducer& operator=(const DdpReducer&) = delete;

  void before_forward();
  NoSync no_sync() { return NoSync(no_sync_depth_); }
  void sync_gradients();

  const DdpStats& stats() const { return stats_; }
  const BucketPlan& plan() const { return plan_; }

 private:
  struct Slot {
    size_t bucket = 0;
    Tensor view;
    bool arrived = false;  // in this backward
  };

  std::vector<size_t> trainable() const;
  void check_same_parameters() const;
  void verify_and_broadcast();
  void make_plan(const std::vector<size_t>& order);
  void place_gradients();
  void rebuild_in_arrival_order();
  void sync_buffers();

  void begin_backward();
  void gradient_arrived(size_t parameter);
  void end_backward();
  void launch_ready();
  void launch(size_t bucket);
  void finish();
  void wait_for_all();
  void fill_in_missing();
  void settle_unused(const std::vector<bool>& present);

  Module& model_;
  ProcessGroup group_;
  const DdpOptions options_;
  const std::vector<NamedTensor> parameters_;
  std::vector<size_t> planned_;  // indices of the parameters that the plan covers, ascending
  BucketPlan plan_;
  std::shared_ptr<Storage> storage_;
  std::vector<Tensor> flats_;  // one per bucket
  std::vector<Slot> slots_;    // one per parameter
  std::unique_ptr<GradCountdown> countdown_;

  int no_sync_depth_ = 0;
  bool rebuilt_ = false;
  bool backward_seen_ = false;
  std::vector<size_t> arrival_;  // of the backward that runs or ran last

  // State of one backward.
  bool synchronizing_ = false;
  std::vector<size_t> open_;  // gradients a bucket still waits for
  size_t next_ = 0;           // the next bucket to launch
  std::vector<Work> works_;   // those under way
  DdpStats stats_;
};

}  // namespace tenon
