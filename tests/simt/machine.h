// Runs one kernel at a time: all blocks one after another, the threads of a block as fibers. Which
// thread goes on is the schedule's choice, and that changes only where a thread has to wait.
// A machine belongs to one OS thread while it runs; as many run as OS threads launch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/tests/simt/fiber.h"
#include "tenon/tests/simt/kernel.h"
#include "tenon/tests/simt/report.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/shared_arena.h"

namespace simt {

struct KernelLaunch {
  std::string op;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  std::shared_ptr<const KernelCall> call;
};

// The asynchronous copies of a thread, in order, and where their groups end.
class PendingCopies {
 public:
  void add(const AsyncCopy& copy) { copies_.push_back(copy); }
  void commit();
  bool next(int pending, AsyncCopy& copy);
  bool empty() const { return copies_.empty(); }
  void clear();

 private:
  std::vector<AsyncCopy> copies_;
  std::vector<size_t> groups_;
  size_t next_ = 0;
};

class Machine {
 public:
  static constexpr unsigned kMaxThreads = 1024;
  static constexpr unsigned kMaxWarps = kMaxThreads / 32;

  // Runs the kernel on a machine that is free.
  static void execute(const KernelLaunch& launch);
  // The machine that the calling OS thread is running a kernel on, or nullptr.
  static Machine* current();

  int barrier(Vote vote, int predicate, Site site);
  uint64_t exchange(const WarpCall& call);
  void maybe_yield();
  PendingCopies& copies() { return copies_[here.number]; }
  SharedArena& arena() { return arena_; }
  const SharedArena& arena() const { return arena_; }

  // Gives the kernel up, after a report. What the fibers' stacks own is lost, so nobody may own
  // anything.
  [[noreturn]] void give_up();

  // For the access checker.
  const KernelLaunch& launch() const { return *launch_; }
  const Fiber& fiber() const { return *running_; }
  uint32_t block_epoch() const { return block_epoch_; }
  uint32_t warp_epoch() const { return warp_epoch_[here.number / 32]; }
  uint64_t block_number() const { return block_number_; }
  bool owns_stack(const void* address) const { return fibers_.holds(address); }
  // "op 'softmax', block (0, 0, 0), thread (3, 0, 0)"
  std::string where() const;

 private:
  enum class Schedule { in_order, warp_priorities, any_thread };

  Machine() : fibers_(&Machine::fiber_body, this) {}
  void run(const KernelLaunch& launch);
  void set_index_table();
  void start_block();
  void end_block();

  static void fiber_body(void* self);
  void thread_loop();
  void finish_thread();
  void check_copies();

  // The next thread to run, taken out of the runnable ones, or -1.
  int pick();
  unsigned pick_warp();
  void make_runnable(unsigned warp, uint32_t lanes);
  // Goes on with others until somebody makes the running thread runnable again.
  void suspend();
  void enter(int thread);
  void switch_to(const Fiber& fiber);

  bool try_complete(unsigned warp, uint32_t of_lane, bool caller_runs);
  void check_arrival(unsigned warp, unsigned lane);
  void check_sources(unsigned warp, uint32_t asked_in_vain);
  [[noreturn]] void stalled();
  std::string places() const;

  // The launch.
  const KernelLaunch* launch_ = nullptr;
  Schedule schedule_ = Schedule::in_order;
  Random random_{0};
  unsigned threads_ = 0;
  unsigned warps_ = 0;
  uint64_t blocks_ = 0;
  uint64_t blocks_done_ = 0;
  uint64_t block_number_ = 0;
  uint64_t block_step_ = 1;  // blocks run in steps of this, modulo their number
  uint64_t block_first_ = 0;
  bool given_up_ = false;

  // The block. Lanes of a warp as bits.
  std::array<uint32_t, kMaxWarps> runnable_{};
  std::array<uint32_t, kMaxWarps> unstarted_{};
  std::array<uint32_t, kMaxWarps> done_{};
  std::array<uint32_t, kMaxWarps> at_barrier_{};
  std::array<uint32_t, kMaxWarps> in_exchange_{};
  std::array<uint32_t, kMaxWarps> exists_{};
  std::array<uint32_t, kMaxWarps> warp_epoch_{};
  std::array<uint8_t, kMaxWarps> priority_{};  // warps, the most urgent first
  uint32_t runnable_warps_ = 0;
  unsigned done_count_ = 0;
  unsigned barrier_count_ = 0;
  Site barrier_site_{};
  int votes_ = 0;
  int vote_result_ = 0;
  uint32_t block_epoch_ = 0;
  std::array<WarpCall, kMaxThreads> calls_;
  std::array<uint64_t, kMaxThreads> results_;
  std::array<Fiber*, kMaxThreads> fiber_of_{};
  std::array<PendingCopies, kMaxThreads> copies_;

  int current_ = 0;
  Fiber* running_ = nullptr;
  Fiber main_;
  bool main_left_ = false;  // the next fiber to run was entered from main_
  FiberPool fibers_;
  SharedArena arena_;
  std::vector<uint3> index_;
  dim3 index_block_{0, 0, 0};
};

}  // namespace simt
