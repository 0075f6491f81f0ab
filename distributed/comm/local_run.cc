#include "tenon/distributed/comm/local_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "tenon/distributed/comm/backend.h"

namespace tenon::comm {

LocalRun::LocalRun(int ranks) : gone_(static_cast<size_t>(ranks)) {}

void LocalRun::fail(int rank, const std::string& text, ErrorKind kind) {
  const std::lock_guard lock(mutex_);
  fail_locked({rank, text, kind, false});
}

void LocalRun::fail_locked(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  changed_.notify_all();
}

void LocalRun::throw_failure(Op op) const {
  if (failure_->shared) throw Error(failure_->text, failure_->kind);
  throw Error(str("[", name_of(op), "] aborted by rank ", failure_->rank, ": ", failure_->text),
              ErrorKind::peer_lost);
}

void LocalRun::leave(int rank) {
  const std::lock_guard lock(mutex_);
  gone_[static_cast<size_t>(rank)] = true;
  if (std::ranges::find(gone_, false) == gone_.end()) splits_.clear();  // rooms hold their run
  changed_.notify_all();
}

void LocalRun::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(str("rank ", failure_->rank, ": ", failure_->text), failure_->kind);
}

LocalRoom::LocalRoom(std::shared_ptr<LocalRun> run, std::vector<int> members)
    : run_(std::move(run)),
      members_(std::move(members)),
      seats_(members_.size()),
      present_(members_.size()) {}

std::span<const Seat> LocalRoom::meet(int rank, const Seat& seat) {
  Lock lock(run_->mutex_);
  if (run_->failure_) run_->throw_failure(seat.signature.op);
  seats_[static_cast<size_t>(rank)] = seat;
  const uint64_t generation = generation_;
  if (arrive(rank)) {
    check_agreement();
    next_generation();
  }
  wait_for(
      lock, rank, seat.signature, [&] { return generation_ != generation; }, -1);
  // The last to arrive may have found that the signatures differ.
  if (disagreed_ == generation_) run_->throw_failure(seat.signature.op);
  return seats_;
}

void LocalRoom::part(int rank) {
  Lock lock(run_->mutex_);
  const uint64_t generation = generation_;
  if (arrive(rank)) next_generation();
  run_->changed_.wait(lock, [&] { return generation_ != generation; });
}

bool LocalRoom::arrive(int rank) {
  present_[static_cast<size_t>(rank)] = true;
  return ++arrived_ == size();
}

void LocalRoom::check_agreement() {
  std::vector<Signature> signatures(seats_.size());
  std::ranges::transform(seats_, signatures.begin(), &Seat::signature);
  if (std::string text = disagreement(signatures, members_); !text.empty()) {
    disagreed_ = generation_ + 1;
    run_->fail_locked({members_[0], std::move(text), ErrorKind::failed, true});
  }
}

void LocalRoom::next_generation() {
  arrived_ = 0;
  present_.assign(present_.size(), false);
  ++generation_;
  run_->changed_.notify_all();
}

bool LocalRoom::absent_gone(int from, int& who) const {
  for (int i = 0; i < size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool awaited = from < 0 ? !present_[at] : i == from;
    if (awaited && run_->gone_[static_cast<size_t>(members_[at])]) {
      who = members_[at];
      return true;
    }
  }
  return false;
}

// Waits for ready(), for rank `from` alone or (-1) for everybody who is not here yet.
template <class Ready>
void LocalRoom::wait_for(Lock& lock, int rank, const Signature& signature, Ready ready, int from) {
  int who = -1;
  const auto over = [&] { return ready() || run_->failure_ || absent_gone(from, who); };
  const double seconds = timeout_seconds();
  const bool in_time = run_->changed_.wait_for(lock, std::chrono::duration<double>(seconds), over);
  if (ready()) return;
  if (run_->failure_) run_->throw_failure(signature.op);
  std::string missing;
  for (int i = 0; i < size(); ++i) {
    if (from < 0 ? !present_[static_cast<size_t>(i)] : i == from) missing += str(" ", member(i));
  }
  const std::string text =
      in_time ? str("[", name_of(signature.op), "] rank ", who, " has returned, but rank ",
                    member(rank), " waits for it: ", describe(signature))
              : str("[", name_of(signature.op), "] no answer within ", seconds, " s: rank ",
                    member(rank), " waits in ", describe(signature), " for rank", missing);
  run_->fail_locked({member(rank), text, ErrorKind::peer_lost, false});
  throw Error(text, ErrorKind::peer_lost);
}

void LocalRoom::post(int from, int to, const Signature& signature, std::vector<std::byte> bytes) {
  const Lock lock(run_->mutex_);
  if (run_->failure_) run_->throw_failure(signature.op);
  messages_[{from, to}].push_back({signature, std::move(bytes)});
  run_->changed_.notify_all();
}

void LocalRoom::take(int from, int to, const Signature& signature, std::byte* output) {
  Lock lock(run_->mutex_);
  auto& queue = messages_[{from, to}];
  wait_for(
      lock, to, signature, [&] { return !queue.empty(); }, from);
  const Message message = std::move(queue.front());
  queue.pop_front();
  const Signature& sent = message.signature;
  TENON_CHECK(sent.count == signature.count && sent.dtype == signature.dtype, "recv",
              "the message has another size: rank ", from, " sent ", sent.count, " ", sent.dtype,
              ", rank ", to, " wanted ", signature.count, " ", signature.dtype);
  if (!message.bytes.empty()) std::memcpy(output, message.bytes.data(), message.bytes.size());
}

std::shared_ptr<LocalRoom> LocalRoom::split(uint64_t sequence, int color,
                                            std::vector<int> members) {
  const Lock lock(run_->mutex_);
  auto& room = run_->splits_[{this, sequence, color}];
  if (!room) room = std::make_shared<LocalRoom>(run_, std::move(members));
  return room;
}

}  // namespace tenon::comm
