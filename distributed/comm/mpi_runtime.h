// This process's use of MPI: initialization and end, the launch queue, transfers between two ranks
// that are under way, and waiting with a time limit. Includes mpi.h: only for mpi_*.cc and
// world.cc.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/distributed/comm/backend.h"
#include "tenon/distributed/comm/launch_queue.h"
#include "tenon/distributed/comm/node_room.h"
#include "tenon/distributed/comm/shared_window.h"

namespace tenon::comm {

// Throws an Error with MPI's own text unless `code` is success.
void check_mpi(int code, const char* op);

// Ends this process and with it all ranks; `code` becomes the job's status.
[[noreturn]] void end_ranks(int code);

class MpiRuntime {
 public:
  // MPI must be initialized. `context` is the rank's own.
  explicit MpiRuntime(RankContext& context);
  ~MpiRuntime();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Among the ranks of this node (or of $TENON_RANKS_PER_NODE ranks, for tests).
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  // Cores that each rank of this node may use when they are shared out evenly.
  int cores_per_rank() const { return cores_per_rank_; }
  int node_color() const { return node_color_; }
  // $TENON_DEBUG is "detail": ranks compare every call, on different nodes too.
  bool detail() const { return detail_; }
  double timeout() const { return timeout_; }

  LaunchQueue& queue() { return queue_; }
  const std::shared_ptr<WindowRegistry>& windows() const { return windows_; }

  // From within tasks of the queue:
  // A communicator that lives until the end of the runtime and reports errors by codes.
  MPI_Comm adopt(MPI_Comm comm);
  // A send or receive has begun; poll() completes it.
  void add_transfer(std::shared_ptr<Request> request, std::vector<MPI_Request> parts);
  bool poll();
  // Waits for all of `parts`; an error names the peers of those that are not done in time.
  void wait_all(std::vector<MPI_Request>& parts, std::span<const int> peers, const Signature& call);

  void add_room(const std::shared_ptr<NodeRoom>& room) { rooms_.push_back(room); }
  // True for the one rank of the node that may write the error which ends the job.
  bool claim_report();
  // The ordered end: queue, rooms, communicators, MPI. Nothing may be launched afterwards.
  void close();
  bool closed() const { return closed_; }
  // Writes "rank R: step S: text" and ends all ranks with `code`.
  [[noreturn]] void end_job(const std::string& text, int code);

 private:
  struct Transfer {
    std::shared_ptr<Request> request;
    std::vector<MPI_Request> parts;
    int64_t deadline_ns;
  };
  bool advance(Transfer& transfer);
  void find_node();

  RankContext& context_;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int cores_per_rank_ = 1;
  int node_color_ = 0;
  const bool detail_;
  const double timeout_;
  bool closed_ = false;
  const std::shared_ptr<WindowRegistry> windows_ = std::make_shared<WindowRegistry>();
  std::vector<Transfer> transfers_;
  std::vector<MPI_Comm> comms_;
  std::vector<std::weak_ptr<NodeRoom>> rooms_;
  LaunchQueue queue_;  // last: its thread uses the rest
};

}  // namespace tenon::comm
