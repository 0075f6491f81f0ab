// Tasks of one rank's communication, run one at a time in the order of launching. A thread of its
// own runs them while the rank computes; a caller that waits runs them itself, which saves the
// hand-over. Either way at most one thread is inside a task, so MPI_THREAD_SERIALIZED is enough.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "tenon/core/rank_context.h"

namespace tenon::comm {

class LaunchQueue {
 public:
  using Task = std::function<void()>;  // must not throw
  // Moves forward what tasks have left under way; true while there is something.
  using Poll = std::function<bool()>;

  // Without a thread tasks run in push().
  LaunchQueue(bool threaded, RankContext& context, Poll poll);
  ~LaunchQueue();
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  // `awaited`: the caller calls help() at once, the thread need not wake up.
  void push(Task task, bool awaited);
  // Runs tasks and polls on this thread until done(); false when the queue's thread is at work, so
  // that the caller has to wait for it.
  bool help(const std::function<bool()>& done);
  // Runs `task` in its turn and returns when it is done; throws what it throws.
  void run(const std::function<void()>& task);
  // Runs what is left and ends the thread.
  void close();

 private:
  bool run_next();
  bool run_or_poll();
  void wake();
  void work();

  RankContext& context_;
  const Poll poll_;
  std::mutex turn_;   // held while running a task or polling
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t wakes_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tenon::comm
