// What stands behind a ProcessGroup: a handful of virtuals on checked operations.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "tenon/core/trace.h"
#include "tenon/distributed/comm/process_group.h"
#include "tenon/distributed/comm/signature.h"

namespace tenon::comm {

// A checked call.
struct Operation {
  Op op = Op::barrier;
  Tensor output = {};  // undefined for a send and a barrier
  Tensor input = {};   // the same as `output` for in-place operations
  ReduceOp reduce = ReduceOp::sum;
  int peer = -1;  // root, destination or source
  Call call = {};

  // The tensor whose size the signature speaks of, and the one whose bytes are counted.
  const Tensor& part() const;
  const Tensor& larger() const;
  Signature signature(uint64_t sequence, int ranks) const;
};

// A launched operation and its end.
class Request {
 public:
  Request(Operation operation, std::shared_ptr<Backend> backend, Signature signature);

  const Operation& operation() const { return operation_; }
  const Signature& signature() const { return signature_; }
  Backend& backend() const { return *backend_; }

  // In front of the work itself: sleeps if a test asked for it and notes the time.
  void start();
  // The end of the work; gives the tensors back.
  void complete(std::exception_ptr failure = nullptr);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Blocks until complete.
  void block() const;
  // Throws the failure of a completed request.
  void rethrow() const;
  // How long the work itself took; 0 until it is complete.
  int64_t busy_ns() const { return done() ? busy_ns_ : 0; }

 private:
  Operation operation_;
  const std::shared_ptr<Backend> backend_;
  const Signature signature_;
  const std::shared_ptr<EventRing> ring_;
  const uint64_t event_;
  std::exception_ptr failure_;
  int64_t start_ns_ = 0;
  int64_t busy_ns_ = 0;
  std::atomic<bool> done_{false};
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Runs the request or queues it. Failures of its work go into the request.
  virtual void launch(const std::shared_ptr<Request>& request) = 0;
  // Returns when the request is complete.
  virtual void wait(Request& request) = 0;
  // Null when the new group has one rank.
  virtual std::shared_ptr<Backend> split(int color, int key) = 0;
  virtual std::shared_ptr<Storage> allocate(size_t bytes, Category category) = 0;
  virtual std::string note() const { return {}; }
  virtual void abort(const Error& error) = 0;

  // Numbers the collectives from 1; a send or receive has none, as not every rank takes part.
  uint64_t next_sequence(Op op) { return is_point_to_point(op) ? 0 : ++sequence_; }
  void set_delay(DelayFunction delay) { delay_ = std::move(delay); }
  const DelayFunction& delay() const { return delay_; }

 private:
  std::atomic<uint64_t> sequence_{0};
  DelayFunction delay_;
};

// The first byte of `tensor`, null when it has none.
void* address_of(const Tensor& tensor);

// How long a rank waits for others: $TENON_TIMEOUT_S, 600 s when that is not set.
double timeout_seconds();

}  // namespace tenon::comm
