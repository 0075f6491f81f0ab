// Two streams, events and arrays for the tests of stream orders, and simple tasks.
#pragma once

#include <cuda_runtime.h>

#include "tenon/tests/simt/test_support.h"

namespace simt::planted {

class Streams {
 public:
  explicit Streams(int count);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void fill(cudaStream_t stream, int* data, int value) const;
  void add(cudaStream_t stream, int* data, int value) const;
  void accumulate(cudaStream_t stream, const int* from, int* to) const;
  void copy(cudaStream_t stream, const int* from, int* to) const;
  void record(cudaEvent_t event, cudaStream_t stream) const;
  void wait(cudaStream_t stream, cudaEvent_t event) const;
  void synchronise(cudaStream_t stream) const;
  // Waits for the stream; checks that all elements are `value` unless the case is a broken one.
  void expect(cudaStream_t stream, const int* data, int value, bool broken) const;

  cudaStream_t compute = nullptr, comm = nullptr;
  cudaEvent_t event = nullptr, other_event = nullptr, third_event = nullptr;
  int *a = nullptr, *b = nullptr, *c = nullptr;  // c begins with zeros
  int* pinned = nullptr;

 private:
  const int count_;
};

}  // namespace simt::planted
