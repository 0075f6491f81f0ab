// World: this process among the processes that mpirun (or another launcher) started; without a
// launcher a world of one. It owns MPI from initialization to the ordered end.
#pragma once

#include <functional>
#include <memory>

#include "tenon/distributed/comm/process_group.h"

namespace tenon {

class World {
 public:
  // Also sets the process's RankContext: rank, ranks, event ring (a file under $TENON_RING_DIR when
  // that is set) and threads = max(1, cores / local ranks). From here on an exception that nobody
  // catches is written with the rank's number and ends all ranks.
  World(int argc, char** argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this node
  int local_size() const;
  // Collective, in front of everything else: this rank's device is number `local rank` of its node
  // (counted round where ranks share devices), and from now on group() takes tensors on it as well.
  // An Error says why there is none.
  Device use(DeviceType type);
  Device device() const;
  ProcessGroup group() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The main function of a program: makes a World, runs `body` and returns its status. An Error is
// written once, as "rank R: step S: [op] …", and ends all ranks with the error's exit code.
int run_main(int argc, char** argv, const std::function<int(World&)>& body);

}  // namespace tenon
