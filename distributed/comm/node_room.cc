#include "tenon/distributed/comm/node_room.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>
#include <new>
#include <utility>

#include "tenon/core/check.h"
#include "tenon/core/trace.h"

namespace tenon::comm {
namespace {

constexpr int kSpins = 2000;          // some microseconds: a peer that runs now
constexpr int kYields = 200;          // a peer that waits for this core
constexpr int64_t kNap = 20'000'000;  // ns between looks at the clock and at who has left

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Not the private kind: the word lies in memory of several processes.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, int64_t ns) {
  const timespec limit{.tv_sec = 0, .tv_nsec = ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// One rank's cache lines. Two descriptors in turn: a rank may be one meeting ahead of another that
// still reads.
struct alignas(128) NodeRoom::Place {
  std::atomic<uint64_t> arrivals{0};
  std::atomic<bool> left{false};
  Descriptor shown[2];
};

struct NodeRoom::Block {
  alignas(128) std::atomic<uint32_t> arrived{0};
  alignas(128) std::atomic<uint32_t> generation{0};
  std::atomic<uint32_t> sleepers{0};
  alignas(128) std::atomic<bool> reported{false};
  Place places[1];  // as many as the node has ranks
};

size_t NodeRoom::bytes(int ranks) {
  return sizeof(Block) + static_cast<size_t>(ranks) * sizeof(Place);
}

// All of it starts as zeros, which fresh shared memory is.
NodeRoom::NodeRoom(std::shared_ptr<SharedSegment> segment, int rank, std::vector<int> names,
                   double timeout_seconds, Idle idle)
    : segment_(std::move(segment)),
      block_(std::launder(reinterpret_cast<Block*>(segment_->data()))),
      rank_(rank),
      names_(std::move(names)),
      timeout_seconds_(timeout_seconds),
      idle_(std::move(idle)) {}

NodeRoom::~NodeRoom() { leave(); }

std::vector<Descriptor> NodeRoom::meet(const Descriptor& mine) {
  const size_t turn = ++meetings_ % 2;
  block_->places[rank_].shown[turn] = mine;
  barrier(mine.signature);
  std::vector<Descriptor> all(names_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = block_->places[i].shown[turn];
  return all;
}

void NodeRoom::leave() {
  block_->places[rank_].left = true;
  futex_wake_all(block_->generation);
}

bool NodeRoom::claim_report() { return !block_->reported.exchange(true); }

void NodeRoom::barrier(const Signature& call) {
  const uint32_t generation = block_->generation.load();
  block_->places[rank_].arrivals.store(++arrivals_, std::memory_order_release);
  if (block_->arrived.fetch_add(1) + 1 == names_.size()) {
    block_->arrived.store(0);
    block_->generation.store(generation + 1);
    // A rank that counts itself as a sleeper after this look finds the new generation.
    if (block_->sleepers.load() > 0) futex_wake_all(block_->generation);
    return;
  }
  if (!wait_awake(generation)) wait_asleep(generation, call);
}

bool NodeRoom::wait_awake(uint32_t generation) const {
  const auto over = [&] {
    return block_->generation.load(std::memory_order_acquire) != generation;
  };
  for (int i = 0; i < kSpins; ++i) {
    if (over()) return true;
    pause_core();
  }
  for (int i = 0; i < kYields; ++i) {
    if (over()) return true;
    idle_();
    ::sched_yield();
  }
  return false;
}

void NodeRoom::wait_asleep(uint32_t generation, const Signature& call) {
  const int64_t deadline = now_ns() + static_cast<int64_t>(timeout_seconds_ * 1e9);
  while (block_->generation.load(std::memory_order_acquire) == generation) {
    if (idle_()) {
      ::sched_yield();
    } else {
      block_->sleepers.fetch_add(1);
      futex_wait(block_->generation, generation, kNap);
      block_->sleepers.fetch_sub(1);
    }
    const bool waiting = block_->generation.load(std::memory_order_acquire) == generation;
    if (waiting && !missing(true).empty()) give_up(call, "a rank has ended its world: rank");
    if (waiting && now_ns() > deadline) {
      give_up(call, str("no answer within ", timeout_seconds_, " s from rank"));
    }
  }
}

std::string NodeRoom::missing(bool only_left) const {
  std::string ranks;
  for (size_t i = 0; i < names_.size(); ++i) {
    const Place& place = block_->places[i];
    if (place.arrivals.load(std::memory_order_acquire) >= arrivals_) continue;
    if (only_left && !place.left) continue;
    ranks += str(ranks.empty() ? " " : ", ", names_[i]);
  }
  return ranks;
}

void NodeRoom::give_up(const Signature& call, const std::string& why) const {
  const bool left = !missing(true).empty();
  throw Error(str("[", name_of(call.op), "] ", why, missing(left), ", while rank ",
                  names_[static_cast<size_t>(rank_)], " waits in ", describe(call)),
              ErrorKind::peer_lost);
}

}  // namespace tenon::comm
