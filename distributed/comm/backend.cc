#include "tenon/distributed/comm/backend.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "tenon/core/rank_context.h"

namespace tenon {

void Work::wait() {
  if (!request_) return;
  if (!request_->done() || request_->on_device()) request_->backend().wait(*request_);
  request_->rethrow();
}

bool Work::done() const { return !request_ || request_->done(); }

int64_t Work::busy_ns() const { return request_ ? request_->busy_ns() : 0; }

namespace comm {

const Tensor& Operation::part() const {
  return op == Op::all_gather || op == Op::send ? input : output;
}

const Tensor& Operation::larger() const {
  return op == Op::reduce_scatter || op == Op::send ? input : output;
}

Device Operation::device() const { return part().defined() ? part().device() : kCpu; }

Signature Operation::signature(uint64_t sequence, int ranks) const {
  Signature result{.sequence = sequence, .peer = peer, .op = op, .reduce = reduce};
  if (part().defined()) {
    result.count = op == Op::all_to_all ? part().numel() / ranks : part().numel();
    result.dtype = part().dtype();
  }
  return result;
}

Request::Request(Operation operation, std::shared_ptr<Backend> backend, Signature signature)
    : operation_(std::move(operation)),
      backend_(std::move(backend)),
      signature_(signature),
      ring_(rank_context().ring),
      event_(ring_->begin(
          EventKind::collective, name_of(operation_.op), operation_.call.tag,
          operation_.larger().defined() ? static_cast<int64_t>(operation_.larger().nbytes()) : 0,
          operation_.call.index, rank_context().step)),
      on_device_(operation_.device() != kCpu) {}

void Request::stage(Staging staging) {
  staged_ = operation_;
  staging_ = std::move(staging);
  operation_.output = staging_.output;
  operation_.input = staging_.input;
}

void Request::release_staging() {
  staging_ = {};
  staged_ = {};
  ready_ = {};
}

void Request::start() {
  if (const DelayFunction& delay = backend_->delay()) {
    const int64_t us = delay(backend_->rank(), name_of(operation_.op), signature_.sequence);
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  start_ns_ = now_ns();
  ring_->start(event_);
  if (staging_.before) staging_.before();
}

void Request::complete(std::exception_ptr failure) {
  if (!failure && staging_.after) {
    try {
      staging_.after();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  // A failed collective stays open in the ring: it is the one that never came back.
  if (!failure) ring_->end(event_);
  busy_ns_ = start_ns_ == 0 ? 0 : now_ns() - start_ns_;
  failure_ = std::move(failure);
  operation_.output = Tensor();
  operation_.input = Tensor();
  done_.store(true, std::memory_order_release);
  done_.notify_all();
}

int64_t Request::busy_ns() const {
  if (!done()) return 0;
  return clock_ ? clock_() : busy_ns_;
}

void Request::block() const { done_.wait(false, std::memory_order_acquire); }

void Request::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

std::shared_ptr<Backend> DeviceSide::split(int, int) {
  TENON_ASSERT(false);
  return nullptr;
}

void* address_of(const Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 ? tensor.raw_data() : nullptr;
}

double timeout_seconds() {
  const char* text = std::getenv("TENON_TIMEOUT_S");
  if (text == nullptr || *text == '\0') return 600;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  TENON_CHECK(*end == '\0' && seconds > 0, "timeout", "wrong TENON_TIMEOUT_S: given '", text,
              "', wanted a number of seconds above 0");
  return seconds;
}

}  // namespace comm
}  // namespace tenon
