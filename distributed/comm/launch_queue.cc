#include "tenon/distributed/comm/launch_queue.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

namespace tenon::comm {

LaunchQueue::LaunchQueue(bool threaded, RankContext& context, Poll poll)
    : context_(context), poll_(std::move(poll)) {
  if (threaded) thread_ = std::thread([this] { work(); });
}

LaunchQueue::~LaunchQueue() { close(); }

void LaunchQueue::push(Task task, bool awaited) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  if (!thread_.joinable()) {
    const std::lock_guard turn(turn_);
    while (run_next()) {
    }
  } else if (!awaited) {
    wake();
  }
}

bool LaunchQueue::run_next() {
  Task task;
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop_front();
  }
  task();
  return true;
}

bool LaunchQueue::help(const std::function<bool()>& done) {
  while (!done()) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) {
      wake();  // it may just have found the queue empty
      return false;
    }
    if (run_next() || done()) continue;
    poll_();
    turn.unlock();
    std::this_thread::yield();
  }
  return true;
}

void LaunchQueue::run(const std::function<void()>& task) {
  struct State {
    std::exception_ptr failure;
    std::atomic<bool> done{false};
  };
  const auto state = std::make_shared<State>();
  const auto wrapped = [state, &task] {
    try {
      task();
    } catch (...) {
      state->failure = std::current_exception();
    }
    state->done = true;
    state->done.notify_all();
  };
  push(wrapped, true);
  help([&] { return state->done.load(); });
  state->done.wait(false);
  if (state->failure) std::rethrow_exception(state->failure);
}

void LaunchQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wakes_;
  }
  changed_.notify_one();
}

void LaunchQueue::work() {
  const RankContextScope scope(context_);
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return wakes_ != seen || closing_; });
      seen = wakes_;
      if (closing_ && tasks_.empty()) return;
    }
    while (run_or_poll()) {
    }
  }
}

bool LaunchQueue::run_or_poll() {
  {
    const std::lock_guard turn(turn_);
    if (run_next()) return true;
    if (!poll_()) return false;
  }
  std::this_thread::yield();
  return true;
}

void LaunchQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tenon::comm
