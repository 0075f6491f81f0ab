#include "tenon/tests/simt/test_streams.h"

#include <catch2/catch.hpp>

#include "tenon/kernels/cuda/simt.h"

namespace simt::planted {
namespace {

using testing::require;

__global__ void fill_kernel(int* data, int count, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] = value;
}
__global__ void add_kernel(int* data, int count, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] += value;
}
__global__ void accumulate_kernel(const int* from, int* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] += from[i];
}

}  // namespace

Streams::Streams(int count) : count_(count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(int);
  for (cudaStream_t* stream : {&compute, &comm}) {
    require(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  for (cudaEvent_t* e : {&event, &other_event, &third_event}) {
    require(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  for (int** array : {&a, &b, &c}) {
    require(cudaMalloc(reinterpret_cast<void**>(array), bytes), "cudaMalloc");
  }
  require(cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes), "cudaMallocHost");
  require(cudaMemsetAsync(c, 0, bytes, compute), "cudaMemsetAsync");
  synchronise(compute);
}

Streams::~Streams() {
  for (int* array : {a, b, c}) static_cast<void>(cudaFree(array));
  static_cast<void>(cudaFreeHost(pinned));
  for (cudaEvent_t e : {event, other_event, third_event}) static_cast<void>(cudaEventDestroy(e));
  for (cudaStream_t stream : {compute, comm}) static_cast<void>(cudaStreamDestroy(stream));
}

void Streams::fill(cudaStream_t stream, int* data, int value) const {
  launch("fill", fill_kernel, 2, 128, 0, stream, data, count_, value);
}
void Streams::add(cudaStream_t stream, int* data, int value) const {
  launch("add", add_kernel, 2, 128, 0, stream, data, count_, value);
}
void Streams::accumulate(cudaStream_t stream, const int* from, int* to) const {
  launch("accumulate", accumulate_kernel, 2, 128, 0, stream, from, to, count_);
}
void Streams::copy(cudaStream_t stream, const int* from, int* to) const {
  require(cudaMemcpyAsync(to, from, static_cast<size_t>(count_) * sizeof(int), cudaMemcpyDefault,
                          stream),
          "cudaMemcpyAsync");
}
void Streams::record(cudaEvent_t e, cudaStream_t stream) const {
  require(cudaEventRecord(e, stream), "cudaEventRecord");
}
void Streams::wait(cudaStream_t stream, cudaEvent_t e) const {
  require(cudaStreamWaitEvent(stream, e, 0), "cudaStreamWaitEvent");
}
void Streams::synchronise(cudaStream_t stream) const {
  require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void Streams::expect(cudaStream_t stream, const int* data, int value, bool broken) const {
  std::vector<int> host(static_cast<size_t>(count_));
  copy(stream, data, host.data());
  if (!broken) CHECK(host == std::vector<int>(static_cast<size_t>(count_), value));
}

}  // namespace simt::planted
