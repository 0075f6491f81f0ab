// Where the processes of one node meet: a barrier in shared memory that also shows what each rank
// is about to do. A rank that waits spins shortly, yields, and then sleeps, so that more ranks than
// cores work too. The barrier notices a rank that has left and ends after a timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/distributed/comm/shared_window.h"
#include "tenon/distributed/comm/signature.h"

namespace tenon::comm {

// What a rank shows at a meeting: the call, and where its buffers lie in windows (id 0: elsewhere).
struct Descriptor {
  Signature signature;
  uint64_t output_window = 0;
  uint64_t output_offset = 0;
  uint64_t input_window = 0;
  uint64_t input_offset = 0;
};

class NodeRoom {
 public:
  // Called now and then while waiting; true when something else is under way, which forbids sleep.
  using Idle = std::function<bool()>;

  static size_t bytes(int ranks);
  // `rank` counts within the node; `names[i]` is what errors call the node's rank i.
  NodeRoom(std::shared_ptr<SharedSegment> segment, int rank, std::vector<int> names,
           double timeout_seconds, Idle idle);
  ~NodeRoom();
  NodeRoom(const NodeRoom&) = delete;
  NodeRoom& operator=(const NodeRoom&) = delete;

  // Waits for all; returns what they show.
  std::vector<Descriptor> meet(const Descriptor& mine);
  // Waits for all to have done their share of `call`.
  void part(const Signature& call) { barrier(call); }
  // This rank comes to no meeting any more.
  void leave();
  // True for the first rank of the node that asks: it writes the error that all have met.
  bool claim_report();

 private:
  struct Block;
  struct Place;

  void barrier(const Signature& call);
  bool wait_awake(uint32_t generation) const;
  void wait_asleep(uint32_t generation, const Signature& call);
  [[noreturn]] void give_up(const Signature& call, const std::string& why) const;
  std::string missing(bool only_left) const;

  const std::shared_ptr<SharedSegment> segment_;
  Block* const block_;
  const int rank_;
  const std::vector<int> names_;
  const double timeout_seconds_;
  const Idle idle_;
  uint64_t meetings_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace tenon::comm
