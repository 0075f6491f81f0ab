// The fake runtime: memory, streams and events in both modes, failures on request.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <thread>

#include "tenon/core/check.h"
#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/poison.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::testing {
namespace {

__global__ void add_one(int* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] += 1;
}

__global__ void add_to(const int* from, int* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] += from[i];
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

TEST_CASE("simt: two streams pass data by events, eager and async") {
  const WithSettings restore;
  for (const bool async : {false, true}) {
    settings().async = async;
    for (settings().seed = 0; settings().seed < 4; ++settings().seed) {
      const int count = 1000;
      DeviceArray<int> a(std::vector<int>(count, 1)), b(std::vector<int>(count, 10));
      const cudaStream_t first = new_stream(), second = new_stream();
      const cudaEvent_t forth = new_event(), back = new_event();
      for (int round = 0; round < 10; ++round) {
        launch("add_one", add_one, 8, 128, 0, first, a.data(), count);
        require(cudaEventRecord(forth, first), "cudaEventRecord");
        require(cudaStreamWaitEvent(second, forth, 0), "cudaStreamWaitEvent");
        launch("add_to", add_to, 8, 128, 0, second, a.data(), b.data(), count);
        require(cudaEventRecord(back, second), "cudaEventRecord");
        require(cudaStreamWaitEvent(first, back, 0), "cudaStreamWaitEvent");
      }
      require(cudaEventSynchronize(back), "cudaEventSynchronize");
      require(cudaStreamSynchronize(second), "cudaStreamSynchronize");
      REQUIRE(b.values() == std::vector<int>(count, 10 + 65));
      require(cudaStreamDestroy(first), "cudaStreamDestroy");
      require(cudaStreamDestroy(second), "cudaStreamDestroy");
      require(cudaEventDestroy(forth), "cudaEventDestroy");
      require(cudaEventDestroy(back), "cudaEventDestroy");
    }
  }
}

TEST_CASE("simt: memory is poisoned, counted and told apart") {
  size_t before = 0, total = 0;
  require(cudaMemGetInfo(&before, &total), "cudaMemGetInfo");
  REQUIRE(total == settings().memory);
  DeviceArray<float> array(1000);
  size_t after = 0;
  require(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
  REQUIRE(before - after == 4096);
  for (const float value : array.values()) REQUIRE(std::isnan(value));

  void* much = nullptr;
  REQUIRE(cudaMalloc(&much, settings().memory) == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaSuccess);

  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, array.data() + 5), "cudaPointerGetAttributes");
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(attributes.device == 0);
  int local = 0;
  require(cudaPointerGetAttributes(&attributes, &local), "cudaPointerGetAttributes");
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaMemsetAsync(&local, 0, 4, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("simt: a row copy moves rows only, a copy beyond an allocation is reported") {
  DeviceArray<int> array(std::vector<int>(12, 7));
  const std::vector<int> rows = {1, 2, 3, 4};
  require(cudaMemcpy2DAsync(array.data() + 1, 16, rows.data(), 8, 8, 2, cudaMemcpyHostToDevice,
                            nullptr),
          "cudaMemcpy2DAsync");
  REQUIRE(array.values() == std::vector<int>{7, 1, 2, 7, 7, 3, 4, 7, 7, 7, 7, 7});
#if !defined(__SANITIZE_ADDRESS__)
  const Capture capture;
  require(cudaMemsetAsync(array.data() + 1, 0, array.bytes(), nullptr), "cudaMemsetAsync");
  REQUIRE(capture.has(Kind::out_of_bounds));
#endif
}

TEST_CASE("simt: red zones are around every allocation") {
  DeviceArray<char> array(std::vector<char>(77, 'a'));
#if defined(__SANITIZE_ADDRESS__)
  REQUIRE(__asan_address_is_poisoned(array.data() - 1) != 0);
  REQUIRE(__asan_address_is_poisoned(array.data() + 76) == 0);
  REQUIRE(__asan_address_is_poisoned(array.data() + 77) != 0);
  REQUIRE(__asan_address_is_poisoned(array.data() + 77 + 511) != 0);
#endif
  DeviceArray<char> next(100);
  REQUIRE(static_cast<size_t>(next.data() - array.data()) >= 77 + 512);
}

// In a process of its own, which the fault ends.
TEST_CASE("simt: in protect mode the host cannot touch device memory, kernels can") {
  const pid_t child = fork();
  if (child == 0) {
    settings().async = false;
    settings().protect = true;
    const DeviceArray<int> array(std::vector<int>(10, 1));
    set_report_handler([](const Report&) {});  // the checker would come first
    std::signal(SIGSEGV, [](int) { _exit(7); });
    for (int i = 0; i < 64; ++i) {  // after one of 64 tasks memory is guarded
      launch("add_one", add_one, 1, 32, 0, nullptr, array.data(), 10);
      if (*static_cast<const volatile int*>(array.data()) != i + 2) _exit(3);
    }
    _exit(4);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 7);
}

TEST_CASE("simt: calls fail when asked to") {
  set_failures("cudaMalloc:2,launch:1,driver:none");
  int count = -1;
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  DeviceArray<int> array(10);
  void* other = nullptr;
  REQUIRE(cudaMalloc(&other, 10) == cudaErrorMemoryAllocation);
  REQUIRE_THROWS_AS(launch("add_one", add_one, 1, 32, 0, nullptr, array.data(), 10), tenon::Error);
  set_failures("");
  require(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  REQUIRE(count == settings().devices);
}

TEST_CASE("simt: launches over the limits are refused") {
  DeviceArray<int> array(10);
  const auto refused = [&](dim3 grid, dim3 block, size_t bytes) {
    REQUIRE_THROWS_AS(launch("add_one", add_one, grid, block, bytes, nullptr, array.data(), 0),
                      tenon::Error);
  };
  refused(1, 1025, 0);
  refused(1, dim3(8, 1, 65), 0);
  refused(dim3(1, 65536), 1, 0);
  refused(1, 32, 300 << 10);
  launch("add_one", add_one, 0, 4096, 0, nullptr, array.data(), 0);  // nothing to do
}

TEST_CASE("simt: host threads run kernels on devices of their own") {
  std::vector<std::thread> ranks;
  std::atomic<int> right{0};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([rank, &right] {
      require(cudaSetDevice(rank), "cudaSetDevice");
      const cudaStream_t stream = new_stream();
      DeviceArray<int> array(std::vector<int>(500, rank));
      for (int i = 0; i < 50; ++i) {
        launch("add_one", add_one, 4, 128, 0, stream, array.data(), 500);
      }
      require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      if (array.values() == std::vector<int>(500, rank + 50)) ++right;
      require(cudaStreamDestroy(stream), "cudaStreamDestroy");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  REQUIRE(right == 4);
}

}  // namespace
}  // namespace simt::testing
