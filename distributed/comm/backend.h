// What stands behind a ProcessGroup: a handful of virtuals on checked operations.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "tenon/core/stream.h"
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
  // Where its tensors are; the cpu when it has none.
  Device device() const;
  Signature signature(uint64_t sequence, int ranks) const;
};

// What a device operation goes through when the host moves its data (staging_backend.h).
struct Staging {
  Tensor output = {};  // the host's own copies
  Tensor input = {};
  std::function<void()> before;  // on the thread that moves the data: the copy to the host is done
  std::function<void()> after;   // enqueues the copy back
};

// A launched operation and its end.
class Request {
 public:
  Request(Operation operation, std::shared_ptr<Backend> backend, Signature signature);

  const Operation& operation() const { return operation_; }
  const Signature& signature() const { return signature_; }
  Backend& backend() const { return *backend_; }
  // From now on the operation is on the host's copies; they and the device's tensors stay until
  // release_staging(), after the compute stream has waited.
  void stage(Staging staging);
  bool staged() const { return staging_.after != nullptr; }
  void release_staging();
  // Whether its tensors are on a device, so that wait() has a stream to hold back.
  bool on_device() const { return on_device_; }
  // The point of a stream at which the result is there; empty for what the host does.
  void set_ready(StreamEvent event) { ready_ = std::move(event); }
  const StreamEvent& ready() const { return ready_; }
  // A device may know only later how long the work took: 0 until then.
  void set_clock(std::function<int64_t()> clock) { clock_ = std::move(clock); }

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
  int64_t busy_ns() const;

 private:
  Operation operation_;
  const std::shared_ptr<Backend> backend_;
  const Signature signature_;
  const std::shared_ptr<EventRing> ring_;
  const uint64_t event_;
  const bool on_device_;
  Operation staged_;  // the operation on the device while the host works on copies
  Staging staging_;
  StreamEvent ready_;
  std::function<int64_t()> clock_;
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
  virtual std::shared_ptr<Storage> allocate(size_t bytes, Category category, Device device) = 0;
  virtual bool serves(Device device) const { return device == kCpu; }
  virtual std::string serving() const { return "a tensor on the cpu"; }
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

// The device side of a DeviceGroup, for the ranks of `host`. It is the group that is split and that
// then makes new sides.
class DeviceSide : public Backend {
 public:
  DeviceSide(std::shared_ptr<Backend> host, Device device)
      : host_(std::move(host)), device_(device) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool serves(Device device) const override { return device == device_; }
  std::shared_ptr<Backend> split(int, int) final;
  void abort(const Error& error) override { host_->abort(error); }

 protected:
  const std::shared_ptr<Backend> host_;
  const Device device_;
};

// The first byte of `tensor`, null when it has none.
void* address_of(const Tensor& tensor);

// How long a rank waits for others: $TENON_TIMEOUT_S, 600 s when that is not set.
double timeout_seconds();

}  // namespace tenon::comm
