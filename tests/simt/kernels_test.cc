// What device code can do in the emulator: indices, shared memory, barriers, warp functions,
// atomics; the results are the same in every schedule.
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>

#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::testing {
namespace {

__global__ void fill_index(int* out, int width, int height) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int z = static_cast<int>(blockIdx.z * blockDim.z + threadIdx.z);
  if (x >= width || y >= height) return;
  out[(z * height + y) * width + x] = x + 100 * y + 10000 * z;
}

__global__ void __launch_bounds__(256) block_sum(const int* in, int* out, int count) {
  SIMT_SHARED(int, partial, [256]);
  SIMT_DYNAMIC_SHARED(int, copy);
  const int thread = static_cast<int>(threadIdx.x);
  int sum = 0;
  for (int i = thread; i < count; i += 256) sum += in[static_cast<int>(blockIdx.x) * count + i];
  partial[thread] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    __syncthreads();
  }
  copy[thread] = partial[0];
  __syncthreads();
  if (thread == 17) out[blockIdx.x] = copy[255 - thread];
}

template <class T>
__global__ void warp_sum(const T* in, T* out, int count) {
  SIMT_SHARED(T, partial, [8]);
  SIMT_SHARED(int, warps, );
  const int thread = static_cast<int>(threadIdx.x);
  T sum = 0;
  for (int i = thread; i < count; i += static_cast<int>(blockDim.x)) sum += in[i];
  for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffffu, sum, delta);
  if (thread % warpSize == 0) partial[thread / warpSize] = sum;
  if (thread == 0) warps = static_cast<int>(blockDim.x) / warpSize;
  __syncthreads();
  if (thread < warpSize) {
    sum = thread < warps ? partial[thread] : T(0);
    for (int delta = 4; delta > 0; delta /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, delta);
    if (thread == 0) *out = sum;
  }
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x;
  const unsigned all = 0xffffffffu;
  out[lane] = __ballot_sync(all, lane % 3 == 0);
  out[32 + lane] = static_cast<unsigned>(__any_sync(all, lane == 7) + 2 * __all_sync(all, 1));
  out[64 + lane] = __match_any_sync(all, lane / 8);
  out[96 + lane] = __reduce_add_sync(all, lane);
  out[128 + lane] = __shfl_sync(all, lane, 5, 16);
  out[160 + lane] = __shfl_up_sync(all, lane, 2u, 8);
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  out[192 + lane] = __reduce_max_sync(half, lane ^ 5u);
  __syncwarp();
  out[224 + lane] = static_cast<unsigned>(__syncthreads_count(lane < 10));
}

__global__ void count_multiples(unsigned* counts, float* sum, int* largest, int limit) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= limit) return;
  atomicAdd(&counts[i % 7], 1u);
  atomicAdd(sum, 0.5f);
  atomicMax(largest, i);
  unsigned seen = atomicAdd(&counts[7], 0u);
  while (true) {
    const unsigned old = atomicCAS(&counts[7], seen, seen + 2);
    if (old == seen) break;
    seen = old;
  }
}

// Every seed up to here gives each kind of schedule twice.
constexpr uint64_t kSeeds = 6;

TEST_CASE("simt: every thread has its indices, blocks run in any order") {
  const WithSettings restore;
  for (settings().seed = 0; settings().seed < kSeeds; ++settings().seed) {
    const int width = 21, height = 9, depth = 4;
    DeviceArray<int> out(static_cast<size_t>(width * height * depth));
    launch("fill_index", fill_index, dim3(3, 3, 2), dim3(8, 4, 2), 0, nullptr, out.data(), width,
           height);
    const std::vector<int> values = out.values();
    for (int i = 0; i < width * height * depth; ++i) {
      const int x = i % width, y = i / width % height, z = i / width / height;
      REQUIRE(values[static_cast<size_t>(i)] == x + 100 * y + 10000 * z);
    }
  }
}

TEST_CASE("simt: sums over a block by barriers and by shuffles") {
  const WithSettings restore;
  std::vector<int> numbers(3000);
  std::iota(numbers.begin(), numbers.end(), -77);
  for (settings().seed = 0; settings().seed < kSeeds; ++settings().seed) {
    const DeviceArray<int> in(numbers);
    DeviceArray<int> sums(3), warp_sums(1);
    launch("block_sum", block_sum, 3, 256, 256 * sizeof(int), nullptr, in.data(), sums.data(),
           1000);
    launch("warp_sum", warp_sum<int>, 1, 128, 0, nullptr, in.data(), warp_sums.data(), 3000);
    const std::vector<int> values = sums.values();
    for (int block = 0; block < 3; ++block) {
      const auto first = numbers.begin() + 1000 * block;
      REQUIRE(values[static_cast<size_t>(block)] == std::accumulate(first, first + 1000, 0));
    }
    REQUIRE(warp_sums.values()[0] == std::accumulate(numbers.begin(), numbers.end(), 0));
  }
}

TEST_CASE("simt: votes, matches and reductions of a warp") {
  const WithSettings restore;
  for (settings().seed = 0; settings().seed < kSeeds; ++settings().seed) {
    DeviceArray<unsigned> out(256);
    launch("votes", votes, 1, 32, 0, nullptr, out.data());
    const std::vector<unsigned> v = out.values();
    for (unsigned lane = 0; lane < 32; ++lane) {
      REQUIRE(v[lane] == 0x49249249u);
      REQUIRE(v[32 + lane] == 3u);
      REQUIRE(v[64 + lane] == 0xffu << (lane / 8 * 8));
      REQUIRE(v[96 + lane] == 31u * 16u);
      REQUIRE(v[128 + lane] == (lane & 16u) + 5u);
      REQUIRE(v[160 + lane] == (lane % 8 < 2 ? lane : lane - 2));
      REQUIRE(v[192 + lane] == (lane < 16 ? 15u : 31u));
      REQUIRE(v[224 + lane] == 10u);
    }
  }
}

TEST_CASE("simt: atomics count exactly") {
  const WithSettings restore;
  for (settings().seed = 0; settings().seed < kSeeds; ++settings().seed) {
    DeviceArray<unsigned> counts(std::vector<unsigned>(8, 0u));
    DeviceArray<float> sum(std::vector<float>{0.0f});
    DeviceArray<int> largest(std::vector<int>{-1});
    launch("count_multiples", count_multiples, 8, 96, 0, nullptr, counts.data(), sum.data(),
           largest.data(), 700);
    const std::vector<unsigned> values = counts.values();
    for (size_t i = 0; i < 7; ++i) REQUIRE(values[i] == 100u);
    REQUIRE(values[7] == 1400u);
    REQUIRE(sum.values()[0] == 350.0f);
    REQUIRE(largest.values()[0] == 699);
  }
}

}  // namespace
}  // namespace simt::testing
