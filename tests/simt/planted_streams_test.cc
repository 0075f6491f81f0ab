// Wrong orders of tasks on streams, each beside its correct twin. In eager mode every result is
// right all the same; the checker reports them because nothing orders the two accesses.
#include <catch2/catch.hpp>

#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/memory_marks.h"
#include "tenon/tests/simt/planted.h"
#include "tenon/tests/simt/stream_task.h"
#include "tenon/tests/simt/test_streams.h"

namespace simt::planted {
namespace {

constexpr int kCount = 256;

void missing_wait(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 5);
  s.record(s.event, s.compute);
  if (!broken) s.wait(s.comm, s.event);
  s.copy(s.comm, s.a, s.b);
  s.expect(s.comm, s.b, 5, broken);
}

void recorded_too_early(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 1);
  if (broken) s.record(s.event, s.compute);
  s.add(s.compute, s.a, 4);
  if (!broken) s.record(s.event, s.compute);
  s.wait(s.comm, s.event);
  s.copy(s.comm, s.a, s.b);
  s.expect(s.comm, s.b, 5, broken);
}

void never_recorded(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 5);
  if (!broken) s.record(s.other_event, s.compute);
  s.wait(s.comm, s.other_event);  // without a record it does not wait
  s.copy(s.comm, s.a, s.b);
  s.expect(s.comm, s.b, 5, broken);
}

// A wait is for the record that is there when it is called.
void waited_before_the_record(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 1);
  s.record(s.event, s.compute);
  s.add(s.compute, s.a, 4);
  if (broken) s.wait(s.comm, s.event);
  s.record(s.event, s.compute);
  if (!broken) s.wait(s.comm, s.event);
  s.copy(s.comm, s.a, s.b);
  s.expect(s.comm, s.b, 5, broken);
}

void buffer_used_again(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 5);
  s.record(s.event, s.compute);
  s.wait(s.comm, s.event);
  s.copy(s.comm, s.a, s.b);
  s.record(s.other_event, s.comm);
  if (!broken) s.wait(s.compute, s.other_event);
  s.fill(s.compute, s.a, 6);
  s.expect(s.comm, s.b, 5, broken);
  s.synchronise(s.compute);
}

// The allocator gives the block to the compute stream while the other one still reads it.
void freed_before_the_last_reader(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 5);
  s.record(s.event, s.compute);
  s.wait(s.comm, s.event);
  s.copy(s.comm, s.a, s.b);
  s.record(s.other_event, s.comm);
  if (!broken) testing::require(cudaEventSynchronize(s.other_event), "cudaEventSynchronize");
  mark_freed(s.a, kCount * sizeof(int));
  mark_allocated(s.a, kCount * sizeof(int));
  s.fill(s.compute, s.a, 7);
  s.expect(s.comm, s.b, 5, broken);
  s.synchronise(s.compute);
}

// Gradients are reduced in place on the communication stream.
void reduce(Streams& s, int* data) {
  enqueue(s.comm, "all-reduce",
          {{data, kCount * sizeof(int), false}, {data, kCount * sizeof(int), true}}, [data] {
            for (int i = 0; i < kCount; ++i) data[i] *= 2;
          });
}

void optimizer_before_the_reduction(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 3);
  s.record(s.event, s.compute);
  s.wait(s.comm, s.event);
  reduce(s, s.a);
  s.record(s.other_event, s.comm);
  if (!broken) s.wait(s.compute, s.other_event);
  s.add(s.compute, s.a, 1);
  s.expect(s.compute, s.a, 7, broken);
  s.synchronise(s.comm);
}

void reduction_before_the_gradient(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 3);
  s.record(s.event, s.compute);
  if (!broken) s.wait(s.comm, s.event);
  reduce(s, s.a);
  s.expect(s.comm, s.a, 6, broken);
  s.synchronise(s.compute);
}

// Two buffers in turn, as when parameters are gathered ahead of their layer.
void prefetched_too_early(Streams& s, bool broken) {
  int* buffers[2] = {s.a, s.b};
  const cudaEvent_t used[2] = {s.event, s.other_event};
  for (int layer = 0; layer < 4; ++layer) {
    const int slot = layer % 2;
    s.wait(s.comm, used[slot]);
    s.fill(s.comm, buffers[slot], layer);
    s.record(s.third_event, s.comm);
    s.wait(s.compute, s.third_event);
    if (broken) s.record(used[slot], s.compute);
    s.accumulate(s.compute, buffers[slot], s.c);
    if (!broken) s.record(used[slot], s.compute);
  }
  s.expect(s.compute, s.c, 6, broken);
  s.synchronise(s.comm);
}

void null_stream_orders_nothing(Streams& s, bool broken) {
  testing::require(cudaMemsetAsync(s.a, 0, kCount * sizeof(int), nullptr), "cudaMemsetAsync");
  if (!broken) s.synchronise(nullptr);
  s.add(s.compute, s.a, 5);
  s.expect(s.compute, s.a, 5, broken);
  s.synchronise(nullptr);
}

void host_reads_too_early(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 5);
  s.copy(s.compute, s.a, s.pinned);
  if (!broken) s.synchronise(s.compute);
  const int first = *static_cast<volatile int*>(s.pinned);
  if (!broken) CHECK(first == 5);
  s.synchronise(s.compute);
}

void host_waits_for_the_wrong_stream(Streams& s, bool broken) {
  s.fill(s.comm, s.b, 1);
  s.fill(s.compute, s.a, 5);
  s.copy(s.compute, s.a, s.pinned);
  s.synchronise(broken ? s.comm : s.compute);
  const int first = *static_cast<volatile int*>(s.pinned);
  if (!broken) CHECK(first == 5);
  s.synchronise(s.compute);
}

void pinned_overwritten(Streams& s, bool broken) {
  for (int i = 0; i < kCount; ++i) s.pinned[i] = 5;
  s.copy(s.compute, s.pinned, s.a);
  if (!broken) s.synchronise(s.compute);
  for (int i = 0; i < kCount; ++i) s.pinned[i] = 6;
  s.expect(s.compute, s.a, 5, broken);
}

void wrong_leading_dimension(Streams& s, bool broken) {
  s.fill(s.compute, s.a, 1);
  const size_t stride = broken ? 68 : 64;  // bytes; 16 columns
  enqueue(s.compute, "gemm", {{s.a, 64, false, 16, stride}}, [] {});
  s.synchronise(s.compute);
}

struct StreamCase {
  const char* name;
  Kind kind;
  bool needs_checker;
  void (*run)(Streams&, bool broken);
};

constexpr StreamCase kCases[] = {
    {"no wait for the producer", Kind::stream_race, true, &missing_wait},
    {"the event is recorded too early", Kind::stream_race, true, &recorded_too_early},
    {"a wait for an event that was never recorded", Kind::stream_race, true, &never_recorded},
    {"a wait before the record it means", Kind::stream_race, true, &waited_before_the_record},
    {"a buffer used again before it is copied", Kind::stream_race, true, &buffer_used_again},
    {"freed before the last reader", Kind::stream_race, true, &freed_before_the_last_reader},
    {"the optimizer does not wait for the reduction", Kind::stream_race, true,
     &optimizer_before_the_reduction},
    {"the reduction does not wait for the gradient", Kind::stream_race, true,
     &reduction_before_the_gradient},
    {"a buffer said to be free before its layer runs", Kind::stream_race, true,
     &prefetched_too_early},
    {"the null stream orders nothing", Kind::stream_race, true, &null_stream_orders_nothing},
    {"the host reads a result too early", Kind::stream_race, true, &host_reads_too_early},
    {"the host waits for the wrong stream", Kind::stream_race, true,
     &host_waits_for_the_wrong_stream},
    {"pinned memory overwritten before it is copied", Kind::stream_race, true, &pinned_overwritten},
    {"a library call beyond its matrix", Kind::out_of_bounds, false, &wrong_leading_dimension},
};

TEST_CASE("simt: planted orders of stream tasks") {
  const testing::WithSettings restore;
  for (const StreamCase& planted : kCases) {
    for (const bool async : {false, true}) {
      settings().async = async;
      for (settings().seed = 0; settings().seed < 4; ++settings().seed) {
        CAPTURE(planted.name, async, settings().seed);
        const testing::Capture capture;
        Streams streams(kCount);
        planted.run(streams, false);
        CHECK(capture.text() == "");
      }
    }
    settings().async = false;
    if (planted.needs_checker && !has_checker()) continue;
    CAPTURE(planted.name);
    const testing::Capture capture;
    Streams streams(kCount);
    planted.run(streams, true);
    CAPTURE(capture.text());
    CHECK(capture.has(planted.kind));
  }
}

}  // namespace
}  // namespace simt::planted
