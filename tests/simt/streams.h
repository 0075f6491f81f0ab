// Streams and events of the fake runtime. In eager mode a task runs inside the call that enqueues
// it; in async mode every stream has a thread, with delays drawn from the seed.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>

#include "tenon/tests/simt/clock.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt {

struct Worker;

// One cudaEventRecord. A wait is for the record that was current when it was called.
struct EventRecord {
  Clock clock;
  int device = 0;
  bool done = false;
  double milliseconds = 0;  // when it was done
};

CUstream_st* create_stream(int device, unsigned flags, int priority);
// Its tasks still run.
bool destroy_stream(cudaStream_t stream);
// The stream that the handle means; the null stream is the current device's. nullptr if it does not
// exist.
CUstream_st* resolve(cudaStream_t stream);

bool stream_idle(CUstream_st* stream);
void wait_for_stream(CUstream_st* stream);
void wait_for_device(int device);

std::shared_ptr<EventRecord> record_event(CUstream_st* stream);
void enqueue_wait(CUstream_st* stream, const std::shared_ptr<EventRecord>& record);
bool record_done(const std::shared_ptr<EventRecord>& record);
void wait_for_record(const std::shared_ptr<EventRecord>& record);
// The host has seen that what the clock stands for is done.
void host_saw(const Clock& clock);

}  // namespace simt

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint32_t component = 0;
  simt::Clock clock;
  std::recursive_mutex eager;  // tasks of several host threads take turns
  std::shared_ptr<simt::Worker> worker;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<simt::EventRecord> record;  // the latest, if any
};
