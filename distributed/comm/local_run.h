// What ranks that are threads of one process share: the run (who is alive, whether it failed) and
// the rooms in which groups meet.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/distributed/comm/signature.h"

namespace tenon::comm {

class LocalRoom;

class LocalRun {
 public:
  explicit LocalRun(int ranks);

  // Remembers the first failure; every pending and later meeting throws from then on.
  void fail(int rank, const std::string& text, ErrorKind kind);
  // The rank's body has returned: it will come to no meeting any more.
  void leave(int rank);
  // Throws the first failure, with its rank in front.
  void rethrow() const;

 private:
  friend class LocalRoom;
  struct Failure {
    int rank;
    std::string text;
    ErrorKind kind;
    bool shared;  // every rank throws this very text
  };
  void fail_locked(Failure failure);
  [[noreturn]] void throw_failure(Op op) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> gone_;
  std::optional<Failure> failure_;
  std::map<std::tuple<const LocalRoom*, uint64_t, int>, std::shared_ptr<LocalRoom>> splits_;
};

// What a rank brings to a meeting.
struct Seat {
  Signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  int color = 0;  // of a split
  int key = 0;
};

class LocalRoom {
 public:
  // `members[i]` is the number in the run of the room's rank i.
  LocalRoom(std::shared_ptr<LocalRun> run, std::vector<int> members);

  int size() const { return static_cast<int>(members_.size()); }
  LocalRun& run() const { return *run_; }
  int member(int rank) const { return members_[static_cast<size_t>(rank)]; }

  // Waits until every rank is here with an equal signature; the seats stay until part().
  std::span<const Seat> meet(int rank, const Seat& seat);
  // The second meeting: everybody has done its share. It always comes, because a rank between the
  // two meetings cannot leave.
  void part(int rank);

  // A message that waits for its receiver.
  void post(int from, int to, const Signature& signature, std::vector<std::byte> bytes);
  void take(int from, int to, const Signature& signature, std::byte* output);

  // The room of the ranks that chose `color` in the split that has just met.
  std::shared_ptr<LocalRoom> split(uint64_t sequence, int color, std::vector<int> members);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Message {
    Signature signature;
    std::vector<std::byte> bytes;
  };

  bool arrive(int rank);  // true for the last
  void check_agreement();
  void next_generation();
  template <class Ready>
  void wait_for(Lock& lock, int rank, const Signature& signature, Ready ready, int from);
  bool absent_gone(int from, int& who) const;

  const std::shared_ptr<LocalRun> run_;
  const std::vector<int> members_;
  std::vector<Seat> seats_;
  std::vector<bool> present_;
  int arrived_ = 0;
  uint64_t generation_ = 0;
  uint64_t disagreed_ = 0;  // the generation that began with different signatures
  std::map<std::pair<int, int>, std::deque<Message>> messages_;
};

}  // namespace tenon::comm
