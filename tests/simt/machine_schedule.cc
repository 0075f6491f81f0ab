// The schedules: which thread goes on, and waiting. Order 0 runs warp by warp, each as far as it
// can go; even seeds give warps random priorities that change now and then; odd ones take any
// thread.
#include <bit>

#include "tenon/tests/simt/machine.h"

namespace simt {
namespace {

// The n-th set bit, counted from the lowest.
unsigned nth_bit(uint32_t bits, unsigned n) {
  for (; n > 0; --n) bits &= bits - 1;
  return static_cast<unsigned>(std::countr_zero(bits));
}

}  // namespace

unsigned Machine::pick_warp() {
  const unsigned last = static_cast<unsigned>(current_) / 32;
  if (schedule_ == Schedule::in_order) {
    const uint32_t from_last = runnable_warps_ >> last << last;
    return static_cast<unsigned>(std::countr_zero(from_last != 0 ? from_last : runnable_warps_));
  }
  if (schedule_ == Schedule::any_thread) {
    const auto count = static_cast<uint32_t>(std::popcount(runnable_warps_));
    return nth_bit(runnable_warps_, random_.below(count));
  }
  unsigned first = 0;
  while ((runnable_warps_ >> priority_[first] & 1u) == 0) ++first;
  const uint8_t warp = priority_[first];
  if (random_.below(32) == 0) {
    for (unsigned i = first; i + 1 < warps_; ++i) priority_[i] = priority_[i + 1];
    priority_[warps_ - 1] = warp;
  }
  return warp;
}

int Machine::pick() {
  if (runnable_warps_ == 0) return -1;
  const unsigned warp = pick_warp();
  const uint32_t lanes = runnable_[warp];
  const unsigned lane =
      schedule_ == Schedule::in_order
          ? static_cast<unsigned>(std::countr_zero(lanes))
          : nth_bit(lanes, random_.below(static_cast<uint32_t>(std::popcount(lanes))));
  runnable_[warp] = lanes & ~(1u << lane);
  if (runnable_[warp] == 0) runnable_warps_ &= ~(1u << warp);
  return static_cast<int>(32 * warp + lane);
}

void Machine::make_runnable(unsigned warp, uint32_t lanes) {
  if (lanes == 0) return;
  runnable_[warp] |= lanes;
  runnable_warps_ |= 1u << warp;
}

void Machine::suspend() {
  const int self = current_;
  const int next = pick();
  if (next == self) return;
  if (next < 0) stalled();
  enter(next);
}

void Machine::maybe_yield() {
  if (schedule_ == Schedule::in_order || random_.below(8) != 0) return;
  make_runnable(here.number / 32, 1u << lane());
  suspend();
}

}  // namespace simt
