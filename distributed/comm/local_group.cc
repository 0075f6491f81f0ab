#include "tenon/distributed/comm/local_group.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/backend.h"
#include "tenon/distributed/comm/local_run.h"
#include "tenon/distributed/comm/peer_memory.h"

namespace tenon {
namespace comm {
namespace {

class LocalBackend : public Backend {
 public:
  LocalBackend(std::shared_ptr<LocalRoom> room, int rank) : room_(std::move(room)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return room_->size(); }

  void launch(const std::shared_ptr<Request>& request) override {
    // A receive waits for its sender in wait(), so that ranks may receive before they send.
    if (request->operation().op != Op::recv) run(*request);
  }
  void wait(Request& request) override { run(request); }

  std::shared_ptr<Backend> split(int color, int key) override {
    Seat seat{.signature = {.sequence = next_sequence(Op::split), .op = Op::split}};
    seat.color = color;
    seat.key = key;
    const std::span<const Seat> seats = room_->meet(rank_, seat);
    std::vector<std::pair<int, int>> chosen;  // key, rank
    for (int i = 0; i < size(); ++i) {
      const Seat& other = seats[static_cast<size_t>(i)];
      if (other.color == color) chosen.emplace_back(other.key, i);
    }
    room_->part(rank_);
    std::ranges::sort(chosen);
    std::vector<int> members;
    int own = 0;
    for (const auto& [ignored, member] : chosen) {
      if (member == rank_) own = static_cast<int>(members.size());
      members.push_back(room_->member(member));
    }
    if (members.size() == 1) return nullptr;
    auto room = room_->split(seat.signature.sequence, color, std::move(members));
    auto group = std::make_shared<LocalBackend>(std::move(room), own);
    group->set_delay(delay());
    return group;
  }

  // All memory of the process is shared between its threads.
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) override {
    return std::make_shared<Storage>(bytes, device, category);
  }

  void abort(const Error& error) override {
    room_->run().fail(room_->member(rank_), error.what(), error.kind());
  }

 private:
  void run(Request& request) {
    request.start();
    try {
      const Operation& operation = request.operation();
      if (operation.op == Op::send) {
        const auto* bytes = static_cast<const std::byte*>(address_of(operation.input));
        room_->post(rank_, operation.peer, request.signature(),
                    bytes ? std::vector<std::byte>(bytes, bytes + operation.input.nbytes())
                          : std::vector<std::byte>());
      } else if (operation.op == Op::recv) {
        room_->take(operation.peer, rank_, request.signature(),
                    static_cast<std::byte*>(address_of(operation.output)));
      } else {
        run_together(operation, request.signature());
      }
      request.complete();
    } catch (...) {
      request.complete(std::current_exception());
    }
  }

  void run_together(const Operation& operation, const Signature& signature) {
    Seat seat{.signature = signature};
    seat.input = static_cast<const std::byte*>(address_of(operation.input));
    seat.output = static_cast<std::byte*>(address_of(operation.output));
    const std::span<const Seat> seats = room_->meet(rank_, seat);
    PeerOperation share{.what = signature, .rank = rank_, .divisor = size()};
    for (const Seat& other : seats) {
      share.inputs.push_back(other.input);
      share.outputs.push_back(other.output);
    }
    std::exception_ptr failure;
    try {
      run_share(share);
    } catch (...) {
      failure = std::current_exception();  // the others still read this rank's memory
    }
    room_->part(rank_);
    if (failure) std::rethrow_exception(failure);
  }

  const std::shared_ptr<LocalRoom> room_;
  const int rank_;
};

// The text and kind of the exception in flight.
std::pair<std::string, ErrorKind> describe_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.what(), error.kind()};
  } catch (const std::exception& error) {
    return {error.what(), ErrorKind::failed};
  } catch (...) {
    return {"an exception that is no std::exception", ErrorKind::failed};
  }
}

// Ranks of a caller that works on a CUDA device have one each, as far as there are enough.
Device device_of(int rank) {
  const Device device = default_device();
  if (device == kCpu) return kCpu;
  return {device.type, rank % runtime(device.type).device_count()};
}

void run_rank(const std::shared_ptr<LocalRoom>& room, int rank, RankContext& context,
              const std::function<void(ProcessGroup)>& body, const DelayFunction& delay) {
  const RankContextScope scope(context);
  try {
    if (room->size() == 1) {
      body(ProcessGroup());
    } else {
      const auto backend = std::make_shared<LocalBackend>(room, rank);
      backend->set_delay(delay);
      body(ProcessGroup(backend).with_device(context.device));
    }
  } catch (...) {
    const auto [text, kind] = describe_exception();
    room->run().fail(rank, text, kind);
  }
  room->run().leave(rank);
}

}  // namespace
}  // namespace comm

void run_ranks(int ranks, const std::function<void(ProcessGroup)>& body,
               const RankOptions& options) {
  TENON_CHECK(ranks >= 1, "run_ranks", "wrong number of ranks: given ", ranks,
              ", wanted at least 1");
  const auto run = std::make_shared<comm::LocalRun>(ranks);
  std::vector<int> members(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) members[static_cast<size_t>(rank)] = rank;
  const auto room = std::make_shared<comm::LocalRoom>(run, members);
  std::vector<std::unique_ptr<RankContext>> contexts;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    contexts.push_back(std::make_unique<RankContext>(rank, ranks));
    contexts.back()->threads = 1;
    contexts.back()->seed(options.seed);
    contexts.back()->device = comm::device_of(rank);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      comm::run_rank(room, rank, *contexts[static_cast<size_t>(rank)], body, options.delay_us);
    });
  }
  for (std::thread& thread : threads) thread.join();
  run->rethrow();
}

}  // namespace tenon
