#include "tenon/tests/simt/streams.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tenon/core/check.h"
#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/hooks.h"
#include "tenon/tests/simt/report.h"
#include "tenon/tests/simt/settings.h"

namespace simt {

struct Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  bool closing = false;
  Random random{0};
};

// Not in the unnamed namespace: gold mistakes one local thread variable of a library for another.
extern __thread const Task* running_task __attribute__((tls_model("initial-exec")));
extern __thread int device_of_thread __attribute__((tls_model("initial-exec")));
__thread const Task* running_task = nullptr;
__thread int device_of_thread = 0;

namespace {

// Threads outlive main's statics: nothing here is ever destroyed.
struct State {
  std::mutex mutex;
  std::set<CUstream_st*> streams;
  std::map<int, CUstream_st*> null_streams;
  uint32_t next_component = 1;
  Clock host;
  std::mutex event_mutex;
  std::condition_variable event_done;
};
State& state() {
  static State& instance = *new State;
  return instance;
}

void work(const std::shared_ptr<Worker>& worker, int device) {
  device_of_thread = device;
  std::unique_lock lock(worker->mutex);
  for (;;) {
    worker->changed.wait(lock, [&] { return worker->closing || !worker->queue.empty(); });
    if (worker->queue.empty()) return;
    const std::function<void()> task = std::move(worker->queue.front());
    worker->queue.pop_front();
    worker->busy = true;
    const uint32_t chance = worker->random.below(64);
    lock.unlock();
    if (chance == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (chance < 16) std::this_thread::yield();
    task();
    lock.lock();
    worker->busy = false;
    worker->changed.notify_all();
  }
}

void submit(CUstream_st* stream, std::function<void()> task) {
  if (!settings().async) {
    const std::lock_guard one_at_a_time(stream->eager);
    return task();
  }
  std::unique_lock all(state().mutex);
  if (stream->worker == nullptr) {
    stream->worker = std::make_shared<Worker>();
    stream->worker->random = Random(settings().seed * 131 + stream->component);
    std::thread(work, stream->worker, stream->device).detach();
  }
  const std::shared_ptr<Worker> worker = stream->worker;
  all.unlock();
  const std::lock_guard lock(worker->mutex);
  worker->queue.push_back(std::move(task));
  worker->changed.notify_all();
}

// The next moment of a stream; everything that the host has seen comes before it.
Task next_task(CUstream_st* stream, const char* what) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.host.advance(0);
  stream->clock.join(s.host);
  const uint32_t time = stream->clock.advance(stream->component);
  return {what, stream->component, time, stream->device, stream->clock};
}

void check_bounds(const Task& task, const Access& access) {
  const Space space = space_of(access.address);
  if (space == Space::pageable || access.bytes == 0 || access.rows == 0) return;
  const auto* start = static_cast<const char*>(access.address);
  const char* end = start + (access.rows - 1) * access.stride + access.bytes;
  const std::optional<HeapBlock> block = block_before(start);
  if (block && end <= block->start + block->bytes) return;
  std::string relation = "nothing is allocated there";
  if (block) {
    relation = tenon::str("an allocation of ", block->bytes, " bytes begins ", start - block->start,
                          " bytes before it");
  }
  report(Kind::out_of_bounds,
         tenon::str(task.what, access.write ? " writes " : " reads ", end - start, " bytes at ",
                    access.address, ", but ", relation));
}

void run_task(const Task& task, const std::vector<Access>& accesses,
              const std::function<void()>& body) {
  const HeapAccess heap;
  const Task* const before = running_task;
  running_task = &task;
  for (const Access& access : accesses) {
    if (hooks.access != nullptr) hooks.access(task, access);
  }
  body();
  running_task = before;
}

}  // namespace

const Task* current_task() { return running_task; }

Clock host_clock() {
  const std::lock_guard lock(state().mutex);
  return state().host;
}

void host_saw(const Clock& clock) {
  const std::lock_guard lock(state().mutex);
  state().host.join(clock);
}

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

CUstream_st* create_stream(int device, unsigned flags, int priority) {
  auto* stream = new CUstream_st;
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  const std::lock_guard lock(state().mutex);
  stream->component = state().next_component++;
  state().streams.insert(stream);
  return stream;
}

bool destroy_stream(cudaStream_t stream) {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(state().mutex);
    if (state().streams.erase(stream) == 0) return false;
    worker = stream->worker;
  }
  if (worker != nullptr) {
    std::unique_lock lock(worker->mutex);
    worker->closing = true;
    worker->changed.notify_all();
    worker->changed.wait(lock, [&] { return worker->queue.empty() && !worker->busy; });
  }
  delete stream;
  return true;
}

CUstream_st* resolve(cudaStream_t stream) {
  const bool null =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  std::unique_lock lock(state().mutex);
  if (!null) return state().streams.count(stream) != 0 ? stream : nullptr;
  const auto found = state().null_streams.find(device_of_thread);
  if (found != state().null_streams.end()) return found->second;
  lock.unlock();
  CUstream_st* created = create_stream(device_of_thread, 0, 0);
  lock.lock();
  return state().null_streams.emplace(device_of_thread, created).first->second;
}

bool valid_stream(cudaStream_t stream) { return resolve(stream) != nullptr; }
int device_of(cudaStream_t stream) { return resolve(stream)->device; }

void enqueue(cudaStream_t handle, const char* what, std::vector<Access> accesses,
             std::function<void()> body) {
  CUstream_st* stream = resolve(handle);
  if (stream == nullptr) {
    return report(Kind::bad_call, tenon::str(what, ": the stream does not exist"));
  }
  const std::lock_guard in_order(stream->eager);  // the clock in the order of the tasks
  auto task = std::make_shared<const Task>(next_task(stream, what));
  for (const Access& access : accesses) check_bounds(*task, access);
  submit(stream, [task, accesses = std::move(accesses), body = std::move(body)] {
    run_task(*task, accesses, body);
  });
}

void enqueue_host(cudaStream_t handle, const char* what, std::function<void()> body) {
  CUstream_st* stream = resolve(handle);
  const std::lock_guard in_order(stream->eager);  // the clock in the order of the tasks
  auto task = std::make_shared<const Task>(next_task(stream, what));
  submit(stream, [task, body = std::move(body)] {
    // The host may go on because of it.
    host_saw(task->clock);
    body();
  });
}

bool stream_idle(CUstream_st* stream) {
  if (stream->worker != nullptr) {
    const std::lock_guard lock(stream->worker->mutex);
    if (stream->worker->busy || !stream->worker->queue.empty()) return false;
  }
  const std::lock_guard lock(state().mutex);
  state().host.join(stream->clock);
  return true;
}

void wait_for_stream(CUstream_st* stream) {
  std::shared_ptr<Worker> worker;
  Clock clock;
  {
    const std::lock_guard lock(state().mutex);
    worker = stream->worker;
    clock = stream->clock;
  }
  if (worker != nullptr) {
    std::unique_lock lock(worker->mutex);
    worker->changed.wait(lock, [&] { return worker->queue.empty() && !worker->busy; });
  }
  host_saw(clock);
}

void wait_for_device(int device) {
  std::vector<CUstream_st*> streams;
  {
    const std::lock_guard lock(state().mutex);
    for (CUstream_st* stream : state().streams) {
      if (stream->device == device) streams.push_back(stream);
    }
  }
  for (CUstream_st* stream : streams) wait_for_stream(stream);
}

std::shared_ptr<EventRecord> record_event(CUstream_st* stream) {
  auto record = std::make_shared<EventRecord>();
  record->device = stream->device;
  const std::lock_guard in_order(stream->eager);
  record->clock = next_task(stream, "cudaEventRecord").clock;
  submit(stream, [record] {
    const std::lock_guard lock(state().event_mutex);
    using Milliseconds = std::chrono::duration<double, std::milli>;
    record->milliseconds =
        Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    record->done = true;
    state().event_done.notify_all();
  });
  return record;
}

void enqueue_wait(CUstream_st* stream, const std::shared_ptr<EventRecord>& record) {
  const std::lock_guard in_order(stream->eager);
  {
    const std::lock_guard lock(state().mutex);
    stream->clock.join(record->clock);
  }
  submit(stream, [record] {
    std::unique_lock lock(state().event_mutex);
    state().event_done.wait(lock, [&] { return record->done; });
  });
}

bool record_done(const std::shared_ptr<EventRecord>& record) {
  const std::lock_guard lock(state().event_mutex);
  return record->done;
}

void wait_for_record(const std::shared_ptr<EventRecord>& record) {
  {
    std::unique_lock lock(state().event_mutex);
    state().event_done.wait(lock, [&] { return record->done; });
  }
  host_saw(record->clock);
}

}  // namespace simt
