// Barriers and warp functions of a machine, and what can be wrong with them.
#include <bit>
#include <cstring>
#include <map>

#include "tenon/core/check.h"
#include "tenon/tests/simt/hooks.h"
#include "tenon/tests/simt/machine.h"

namespace simt {
namespace {

bool same(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string text_of(const Site& site) {
  const char* slash = std::strrchr(site.file, '/');
  return tenon::str(slash != nullptr ? slash + 1 : site.file, ":", site.line);
}

std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

std::string describe(const WarpCall& call) {
  return tenon::str(call.name, "(", hex(call.mask), ") at ", text_of(call.site));
}

}  // namespace

int Machine::barrier(Vote vote, int predicate, Site site) {
  if (done_count_ > 0) {
    report(Kind::barrier_after_exit,
           tenon::str(where(), " waits at the barrier at ", text_of(site), ", but ", done_count_,
                      " threads of its block have ended"));
    give_up();
  }
  if (barrier_count_ == 0) {
    barrier_site_ = site;
    votes_ = vote == Vote::all ? 1 : 0;
  } else if (!same(site, barrier_site_)) {
    report(Kind::divergent_barrier,
           tenon::str(where(), " is at the barrier at ", text_of(site), ", ", barrier_count_,
                      " other threads are at the one at ", text_of(barrier_site_)));
    give_up();
  }
  const int one = predicate != 0 ? 1 : 0;
  votes_ = vote == Vote::count ? votes_ + one : vote == Vote::all ? votes_ & one : votes_ | one;
  const unsigned own_warp = here.number / 32;
  at_barrier_[own_warp] |= 1u << lane();
  if (++barrier_count_ < threads_) {
    suspend();
    return vote_result_;
  }
  vote_result_ = votes_;
  barrier_count_ = 0;
  ++block_epoch_;
  at_barrier_[own_warp] &= ~(1u << lane());
  for (unsigned w = 0; w < warps_; ++w) {
    make_runnable(w, at_barrier_[w]);
    at_barrier_[w] = 0;
  }
  return vote_result_;
}

uint64_t Machine::exchange(const WarpCall& call) {
  const unsigned warp = here.number / 32, own = lane();
  const unsigned number = here.number;
  calls_[number] = call;
  if ((call.mask >> own & 1u) == 0) {
    report(Kind::lane_outside_mask,
           tenon::str(where(), " (lane ", own, ") is not in the mask of ", describe(call)));
    give_up();
  }
  check_arrival(warp, own);
  in_exchange_[warp] |= 1u << own;
  if (!try_complete(warp, own, true)) suspend();
  return results_[number];
}

// Lanes that are there already agree with each other, so one of them is enough to compare with.
void Machine::check_arrival(unsigned warp, unsigned own) {
  const WarpCall* lanes = &calls_[32 * warp];
  const uint32_t waiting = in_exchange_[warp] & lanes[own].mask;
  if (waiting == 0) return;
  const auto other = static_cast<unsigned>(std::countr_zero(waiting));
  const WarpCall &a = lanes[own], &b = lanes[other];
  if ((b.mask >> own & 1u) == 0) return;  // it waits for others first
  if (a.mask != b.mask) {
    report(Kind::mask_mismatch, tenon::str(where(), " (lane ", own, ") is at ", describe(a),
                                           ", lane ", other, " is at ", describe(b)));
    give_up();
  }
  if (!same(a.site, b.site) || std::strcmp(a.name, b.name) != 0) {
    report(Kind::divergent_collective, tenon::str(where(), " (lane ", own, ") is at ", describe(a),
                                                  ", lane ", other, " is at ", describe(b)));
    give_up();
  }
}

// Lanes that have ended, or that a short last warp has not got, are not waited for.
bool Machine::try_complete(unsigned warp, uint32_t of_lane, bool caller_runs) {
  const WarpCall* lanes = &calls_[32 * warp];
  const uint32_t mask = lanes[of_lane].mask;
  const uint32_t present = mask & exists_[warp] & ~done_[warp];
  if ((in_exchange_[warp] & present) != present) return false;
  for (uint32_t rest = present; rest != 0; rest &= rest - 1) {
    if (lanes[std::countr_zero(rest)].mask != mask) return false;
  }
  const uint32_t asked_in_vain = lanes[of_lane].compute(lanes, present, &results_[32 * warp]);
  if (asked_in_vain != 0) check_sources(warp, asked_in_vain);
  // Only __syncwarp orders memory; the others exchange values and no more.
  if (present == exists_[warp] && std::strcmp(lanes[of_lane].name, "__syncwarp") == 0) {
    ++warp_epoch_[warp];
  }
  in_exchange_[warp] &= ~present;
  make_runnable(warp, caller_runs ? present & ~(1u << of_lane) : present);
  return true;
}

void Machine::check_sources(unsigned warp, uint32_t asked_in_vain) {
  const auto own = static_cast<unsigned>(std::countr_zero(asked_in_vain));
  const WarpCall& call = calls_[32 * warp + own];
  const unsigned source = call.argument;
  const char* state = (call.mask >> source & 1u) == 0     ? "which is not in the mask"
                      : (done_[warp] >> source & 1u) != 0 ? "whose thread has ended"
                                                          : "which the block has not got";
  report(Kind::shuffle_source,
         tenon::str(where(), ": lane ", own, " of warp ", warp, " takes the value of lane ", source,
                    ", ", state, ", in ", describe(call)));
  give_up();
}

// "12 threads at a.cu:41 (__syncthreads), 20 have ended"
std::string Machine::places() const {
  std::map<std::string, unsigned> count;
  for (unsigned w = 0; w < warps_; ++w) {
    for (unsigned l = 0; l < 32; ++l) {
      const uint32_t bit = 1u << l;
      if ((at_barrier_[w] & bit) != 0) ++count["at the barrier at " + text_of(barrier_site_)];
      if ((in_exchange_[w] & bit) != 0) ++count["in " + describe(calls_[32 * w + l])];
      if ((done_[w] & bit) != 0) ++count["ended"];
    }
  }
  std::string text;
  for (const auto& [place, threads] : count) {
    text += tenon::str(text.empty() ? "" : ", ", threads, " threads ", place);
  }
  return text;
}

void Machine::stalled() {
  bool exchanging = false;
  for (unsigned w = 0; w < warps_; ++w) exchanging = exchanging || in_exchange_[w] != 0;
  const Kind kind = barrier_count_ > 0 && !exchanging ? Kind::barrier_after_exit : Kind::deadlock;
  report(kind, tenon::str(where(), ": nothing can go on: ", places()));
  give_up();
}

namespace {

Machine& machine_of(const char* function) {
  Machine* machine = Machine::current();
  if (machine == nullptr) {
    report(Kind::bad_call, tenon::str(function, " called outside of a kernel"));
    std::abort();
  }
  return *machine;
}

}  // namespace

int block_barrier(Vote vote, int predicate, Site site) {
  return machine_of("__syncthreads").barrier(vote, predicate, site);
}

uint64_t warp_exchange(const WarpCall& call) { return machine_of(call.name).exchange(call); }

void before_atomic(const void* address, size_t bytes, Site site) {
  Machine& machine = machine_of("an atomic function");
  machine.maybe_yield();
  if (hooks.atomic != nullptr) hooks.atomic(address, bytes, site);
}

void fence() {
  if (hooks.fence != nullptr) hooks.fence();
}

void trap(Site site) {
  Machine& machine = machine_of("__trap");
  report(Kind::bad_call, tenon::str(machine.where(), " called __trap at ", text_of(site)));
  machine.give_up();
}

void* dynamic_shared() { return machine_of("SIMT_DYNAMIC_SHARED").arena().dynamic(); }

void* shared_array(const SharedSite* site) {
  Machine& machine = machine_of("SIMT_SHARED");
  const size_t before = machine.arena().arrays().size();
  void* array = machine.arena().find_or_add(site);
  if (hooks.shared_added != nullptr && machine.arena().arrays().size() > before) {
    hooks.shared_added(machine, static_cast<const char*>(array), site->bytes);
  }
  if (array == nullptr) {
    report(Kind::shared_limit,
           tenon::str(machine.where(), ": with array '", site->name, "' of ", site->bytes,
                      " bytes there is more than 48 KB of static or 227 KB of shared "
                      "memory in a block"));
    machine.give_up();
  }
  return array;
}

}  // namespace simt
