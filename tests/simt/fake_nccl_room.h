// Where the ranks of a communicator of the fake NCCL meet, threads of one process or processes:
// shared memory with a seat and a piece of buffer for each rank, a barrier, and a mailbox for each
// pair of ranks. A wait ends when a rank aborts or nobody comes for 20 s
// (TENON_EMULATED_NCCL_TIMEOUT_S).
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace simt::nccl {

// What ranks must agree on.
struct Signature {
  uint64_t sequence = 0;
  uint64_t count = 0;
  int kind = 0;
  int dtype = 0;
  int op = 0;
  int root = 0;
  bool operator==(const Signature&) const = default;
};

class Room {
 public:
  static constexpr size_t kChunk = size_t{1} << 18;  // bytes of a rank's piece
  static constexpr size_t kBox = size_t{1} << 13;    // bytes of a message's part

  Room(const ncclUniqueId& id, int rank, int ranks);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Puts the signature on this rank's seat and waits for all; false when the wait ended otherwise
  // or they differ, and why() says how.
  bool meet(const Signature& signature);
  bool barrier();
  std::byte* piece(int rank) const;

  // One step of a message; the bytes moved now, 0 when the other side is not ready.
  size_t try_send(int to, const Signature& signature, const std::byte* data, size_t bytes);
  size_t try_receive(int from, const Signature& signature, std::byte* data, size_t bytes);
  // Between two steps that moved nothing; false when waiting has no sense any more.
  bool pause(double waited_seconds);

  void abort();
  bool ended() const;
  // Written before result() changes.
  const std::string& why() const { return why_; }
  ncclResult_t result() const { return result_; }

 private:
  struct Header;
  struct Seat;
  struct Box;

  Seat& seat(int rank) const;
  Box& box(int from, int to) const;
  bool give_up(ncclResult_t result, const std::string& why);

  const int rank_;
  const int ranks_;
  size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
  std::atomic<bool> aborted_{false};
  std::string why_;
  std::atomic<ncclResult_t> result_{ncclSuccess};
};

std::string describe(const Signature& signature);
double seconds();

}  // namespace simt::nccl
