#include "tenon/tests/simt/machine.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>

#include "tenon/core/check.h"
#include "tenon/tests/simt/hooks.h"

namespace simt {
namespace {

// Machines that no OS thread uses; their stacks are already there.
struct Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<Machine>> machines;
};
Idle& idle() {
  static Idle& instance = *new Idle;
  return instance;
}

__thread Machine* running __attribute__((tls_model("initial-exec"))) = nullptr;
// Kernels that this OS thread has run, so that each gets other random numbers.
__thread uint64_t kernels_run __attribute__((tls_model("initial-exec"))) = 0;

std::string triple(const uint3& at) { return tenon::str("(", at.x, ", ", at.y, ", ", at.z, ")"); }

}  // namespace

__thread Coordinates here __attribute__((tls_model("initial-exec"))) = {};

Machine* Machine::current() { return running; }

void Machine::execute(const KernelLaunch& launch) {
  std::unique_ptr<Machine> machine;
  {
    const std::lock_guard lock(idle().mutex);
    if (!idle().machines.empty()) {
      machine = std::move(idle().machines.back());
      idle().machines.pop_back();
    }
  }
  if (machine == nullptr) machine.reset(new Machine);
  Machine* const before = running;
  const Coordinates at = here;
  running = machine.get();
  if (hooks.kernel_started != nullptr) hooks.kernel_started(*machine);
  machine->run(launch);
  if (hooks.kernel_ended != nullptr) hooks.kernel_ended(*machine);
  running = before;
  here = at;
  const std::lock_guard lock(idle().mutex);
  idle().machines.push_back(std::move(machine));
}

void Machine::set_index_table() {
  const dim3 block = launch_->block;
  if (block.x == index_block_.x && block.y == index_block_.y && block.z == index_block_.z) return;
  index_block_ = block;
  index_.clear();
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x) index_.push_back({x, y, z});
    }
  }
}

void Machine::run(const KernelLaunch& launch) {
  launch_ = &launch;
  const uint64_t seed = settings().seed;
  random_ = Random(seed * 1000003 + kernels_run++);
  schedule_ = seed == 0       ? Schedule::in_order
              : seed % 2 == 0 ? Schedule::warp_priorities
                              : Schedule::any_thread;
  set_index_table();
  threads_ = static_cast<unsigned>(index_.size());
  warps_ = (threads_ + 31) / 32;
  for (unsigned w = 0; w < warps_; ++w) {
    const unsigned lanes = std::min(32u, threads_ - 32 * w);
    exists_[w] = lanes == 32 ? ~0u : (1u << lanes) - 1;
  }
  blocks_ = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  block_step_ = 1;
  block_first_ = 0;
  if (seed != 0) {
    block_first_ = random_.below(static_cast<uint32_t>(std::min<uint64_t>(blocks_, 1u << 31)));
    block_step_ = 1 + random_.below(1000);
    while (std::gcd(block_step_, blocks_) != 1) ++block_step_;
  }
  blocks_done_ = 0;
  if (given_up_) {
    for (PendingCopies& copies : copies_) copies.clear();
  }
  given_up_ = false;
  arena_.start_launch(launch.shared_bytes);
  here.block_size = {launch.block.x, launch.block.y, launch.block.z};
  here.grid_size = {launch.grid.x, launch.grid.y, launch.grid.z};
  start_block();
  running_ = &main_;
  enter(pick());
  if (given_up_) fibers_.reset();
}

void Machine::start_block() {
  block_number_ = (block_first_ + blocks_done_ * block_step_) % blocks_;
  const uint64_t rows = block_number_ / launch_->grid.x;
  here.block = {static_cast<unsigned>(block_number_ % launch_->grid.x),
                static_cast<unsigned>(rows % launch_->grid.y),
                static_cast<unsigned>(rows / launch_->grid.y)};
  for (unsigned w = 0; w < warps_; ++w) {
    runnable_[w] = unstarted_[w] = exists_[w];
    done_[w] = at_barrier_[w] = in_exchange_[w] = 0;
    priority_[w] = static_cast<uint8_t>(w);
  }
  runnable_warps_ = warps_ == 32 ? ~0u : (1u << warps_) - 1;
  done_count_ = barrier_count_ = 0;
  ++block_epoch_;
  if (hooks.block_started != nullptr) hooks.block_started(*this);
  current_ = 0;
  if (schedule_ == Schedule::warp_priorities) {
    for (unsigned w = warps_; w > 1; --w) std::swap(priority_[w - 1], priority_[random_.below(w)]);
  }
}

void Machine::end_block() {
  if (const char* name = arena_.overrun()) {
    report(Kind::out_of_bounds, tenon::str("op '", launch_->op, "', block ", triple(here.block),
                                           ": something was written beyond the ends of shared "
                                           "array '",
                                           name, "'"));
    arena_.start_launch(launch_->shared_bytes);
  } else if (blocks_done_ + 1 < blocks_) {
    arena_.start_block();
  }
}

void Machine::fiber_body(void* self) {
  auto* machine = static_cast<Machine*>(self);
  Fiber* fresh = machine->running_;
  finish_switch(fresh, machine->main_left_ ? &machine->main_ : nullptr);
  machine->main_left_ = false;
  machine->thread_loop();
}

// A fiber whose thread is done takes the next one that has not begun, so that without barriers a
// kernel is a plain loop.
void Machine::thread_loop() {
  for (;;) {
    launch_->call->run();
    finish_thread();
    int next = pick();
    if (next < 0 && done_count_ == threads_) {
      end_block();
      if (++blocks_done_ < blocks_) {
        start_block();
        next = pick();
      } else {
        fibers_.give(running_);
        switch_to(main_);
        continue;
      }
    }
    if (next < 0) stalled();
    Fiber* const own = running_;
    const unsigned warp = static_cast<unsigned>(next) / 32;
    const uint32_t bit = 1u << (static_cast<unsigned>(next) % 32);
    if ((unstarted_[warp] & bit) != 0) {
      unstarted_[warp] &= ~bit;
      fiber_of_[static_cast<size_t>(next)] = own;
      current_ = next;
      here.number = static_cast<unsigned>(next);
      here.thread = index_[static_cast<size_t>(next)];
    } else {
      fibers_.give(own);
      enter(next);
    }
  }
}

void Machine::finish_thread() {
  check_copies();
  const unsigned warp = here.number / 32;
  done_[warp] |= 1u << lane();
  ++done_count_;
  if (in_exchange_[warp] != 0) {
    const unsigned waiting = static_cast<unsigned>(std::countr_zero(in_exchange_[warp]));
    try_complete(warp, waiting, false);
  }
}

void Machine::enter(int thread) {
  const unsigned warp = static_cast<unsigned>(thread) / 32;
  const uint32_t bit = 1u << (static_cast<unsigned>(thread) % 32);
  if ((unstarted_[warp] & bit) != 0) {
    unstarted_[warp] &= ~bit;
    fiber_of_[static_cast<size_t>(thread)] = fibers_.take();
  }
  current_ = thread;
  here.number = static_cast<unsigned>(thread);
  here.thread = index_[static_cast<size_t>(thread)];
  switch_to(*fiber_of_[static_cast<size_t>(thread)]);
}

void Machine::switch_to(const Fiber& fiber) {
  Fiber* const own = running_;
  if (own == &fiber) return;
  running_ = const_cast<Fiber*>(&fiber);
  main_left_ = own == &main_;
  switch_fiber(*own, fiber);
  finish_switch(own, main_left_ ? &main_ : nullptr);
  main_left_ = false;
}

void Machine::give_up() {
  given_up_ = true;
  switch_to(main_);
  __builtin_unreachable();
}

std::string Machine::where() const {
  return tenon::str("op '", launch_->op, "', block ", triple(here.block), ", thread ",
                    triple(here.thread));
}

}  // namespace simt
