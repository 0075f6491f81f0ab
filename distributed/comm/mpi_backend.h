// The backend over MPI. Ranks of one node whose tensors lie in shared windows use the peer-memory
// engine; everything else goes through plain messages. Includes mpi.h: only for mpi_*.cc and
// world.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenon/distributed/comm/backend.h"
#include "tenon/distributed/comm/mpi_collectives.h"
#include "tenon/distributed/comm/mpi_runtime.h"
#include "tenon/distributed/comm/node_room.h"
#include "tenon/distributed/comm/peer_memory.h"

namespace tenon::comm {

class MpiBackend : public Backend {
 public:
  // Collective over `comm`, which the backend takes over.
  static std::shared_ptr<MpiBackend> create(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm);

  int rank() const override { return mesh_.rank; }
  int size() const override { return mesh_.size; }
  void launch(const std::shared_ptr<Request>& request) override;
  void wait(Request& request) override;
  std::shared_ptr<Backend> split(int color, int key) override;
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) override;
  std::string note() const override { return note_; }
  void abort(const Error& error) override;

 private:
  MpiBackend(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm);
  void find_nodes();
  void open_room();
  std::shared_ptr<SharedSegment> share(size_t bytes, const Signature& call, std::string& reason);
  std::shared_ptr<MemorySource> open_window(size_t bytes, const Signature& call);

  void run(const std::shared_ptr<Request>& request);
  void run_collective(const Operation& operation, const Signature& call);
  std::vector<Descriptor> agree(const Descriptor& mine);
  std::vector<Descriptor> meet(const Operation& operation, const Signature& call);
  bool reachable(const std::vector<Descriptor>& all) const;
  PeerOperation peer_operation(const Operation& operation,
                               const std::vector<Descriptor>& all) const;
  void run_in_windows(const Operation& operation, const std::vector<Descriptor>& all);
  void run_over_nodes(PeerOperation share);
  void reduce_over_nodes(PeerOperation& share);
  void scatter_over_nodes(PeerOperation& share);
  void gather_over_nodes(PeerOperation& share);
  void run_plain(const Operation& operation, const Signature& call);

  const std::shared_ptr<MpiRuntime> runtime_;
  Mesh mesh_;                       // the whole group
  Mesh node_;                       // its ranks on this node
  Mesh cross_;                      // the ranks with this local rank on every node
  int local_ = 0;                   // this rank within node_
  bool regular_ = true;             // rank = node * ranks per node + local rank
  std::shared_ptr<NodeRoom> room_;  // null when this rank is alone on its node or has no memory
  uint64_t windows_made_ = 0;
  std::string note_;
};

}  // namespace tenon::comm
