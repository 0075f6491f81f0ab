// ProcessGroup: the ranks that communicate, as a value handle. It takes tensors, checks them once,
// counts and traces the call; a backend (ranks as threads, MPI) moves the data.
//
// Every rank of the group calls the same collectives in the same order. The default group is the
// null group, rank 0 of 1: its operations are complete at once and are not counted.
// A reduction is defined to the bit: element = op over ranks 0 … N-1 in that order, in f32 (f64 for
// f64, i64 for i64), rounded once; over several nodes the nodes' own results come first.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/core/tensor.h"
#include "tenon/kernels/rank_reduce.h"

namespace tenon {

using kernels::ReduceOp;

constexpr const char* name_of(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "mean", "max", "min"};
  return kNames[static_cast<int>(op)];
}

// What traces and counters say about a call.
struct Call {
  const char* tag = "user";  // ddp, fsdp, log, …
  int index = -1;            // bucket or unit number
  bool blocking = false;     // the caller waits at once: no hand-over to a communication thread
};

// Microseconds that a rank sleeps in front of a collective; for tests.
using DelayFunction = std::function<int64_t(int rank, std::string_view op, uint64_t sequence)>;

namespace comm {
class Backend;
class Request;
struct Operation;
}  // namespace comm

// A launched collective. The request holds its tensors until it is complete, so a Work may be
// dropped at any time: its destructor neither blocks nor throws.
class Work {
 public:
  Work() = default;  // complete
  explicit Work(std::shared_ptr<comm::Request> request) : request_(std::move(request)) {}
  // Returns when what the caller does next sees the result; throws the Error of a collective that
  // failed or was aborted.
  void wait();
  bool done() const;
  // How long the collective itself ran; 0 until it is done.
  int64_t busy_ns() const;

 private:
  std::shared_ptr<comm::Request> request_;
};

class ProcessGroup {
 public:
  ProcessGroup() = default;  // the null group
  explicit ProcessGroup(std::shared_ptr<comm::Backend> backend) : backend_(std::move(backend)) {}

  int rank() const;
  int size() const;

  // f32, bf16, f16, f64 and i64; there is no mean of i64.
  [[nodiscard]] Work all_reduce(Tensor inout, ReduceOp op, Call call = {});
  // `output` is the ranks' inputs one after another; in place when `input` is output's own part.
  [[nodiscard]] Work all_gather(Tensor output, const Tensor& input, Call call = {});
  // `output` is this rank's part of the reduced `input`; in place when it is input's own part.
  [[nodiscard]] Work reduce_scatter(Tensor output, const Tensor& input, ReduceOp op,
                                    Call call = {});
  [[nodiscard]] Work broadcast(Tensor inout, int root, Call call = {});
  // Part j of `input` goes to rank j, part j of `output` comes from rank j.
  [[nodiscard]] Work all_to_all(Tensor output, const Tensor& input, Call call = {});
  [[nodiscard]] Work send(const Tensor& tensor, int to, Call call = {});
  [[nodiscard]] Work recv(Tensor tensor, int from, Call call = {});
  [[nodiscard]] Work barrier(Call call = {});

  // Collective: ranks of one color form a group, ordered by key, then by rank.
  ProcessGroup split(int color, int key) const;
  // Collective: memory that this group reduces fastest, a window that the ranks of a node share
  // when there is one. Ordinary memory otherwise; note() says why.
  std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device = kCpu);
  // Collective: the same ranks, for tensors on `device` too, this rank's own. Over NCCL where every
  // rank has a device to itself, otherwise through the host's memory.
  ProcessGroup with_device(Device device) const;
  // What a program may want to tell its user about this group; empty when nothing.
  std::string note() const;

  // Ends the group's work everywhere. Ranks as threads: every pending and later wait() on every
  // rank throws. MPI: writes the error with this rank's number and ends the job.
  void abort(const Error& error);
  // Sleeps in front of this rank's collectives; null ends that.
  void set_delay(DelayFunction delay);

 private:
  Work launch(comm::Operation operation) const;

  std::shared_ptr<comm::Backend> backend_;
};

}  // namespace tenon
