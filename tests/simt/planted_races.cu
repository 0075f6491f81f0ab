// Races in a block, in a warp and between blocks.
#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/planted.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::planted {
namespace {

using testing::DeviceArray;

enum class Missing { nothing, first, inner, last };

template <Missing kMissing>
__device__ float block_sum(float value) {
  SIMT_SHARED(float, partial, [128]);
  const unsigned thread = threadIdx.x;
  if (kMissing != Missing::last) __syncthreads();  // the sum before may still be read
  partial[thread] = value;
  if (kMissing != Missing::first) __syncthreads();
  for (unsigned half = 64; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    if (kMissing != Missing::inner) __syncthreads();
  }
  if (kMissing == Missing::inner) __syncthreads();
  return partial[0];
}

template <Missing kMissing>
__global__ void normalise(const float* in, float* out) {
  const float value = in[threadIdx.x];
  const float mean = block_sum<kMissing>(value) / 128.0f;
  const float square = block_sum<kMissing>((value - mean) * (value - mean));
  out[threadIdx.x] = (value - mean) / (square + 1.0f);
}

template <bool kBroken>
__global__ void warp_tree(const float* in, float* out) {
  SIMT_SHARED(float, partial, [32]);
  const unsigned lane = threadIdx.x;
  partial[lane] = in[lane];
  __syncwarp();
  for (unsigned half = 16; half > 0; half /= 2) {
    if (lane < half) partial[lane] += partial[lane + half];
    if (!kBroken) __syncwarp();
  }
  if (lane == 0) *out = partial[0];
}

template <bool kBroken>
__global__ void histogram(const float* in, float* out) {
  SIMT_SHARED(unsigned, bins, [4]);
  if (threadIdx.x < 4) bins[threadIdx.x] = 0;
  __syncthreads();
  const unsigned bin = static_cast<unsigned>(in[threadIdx.x]) % 4;
  if constexpr (kBroken) {
    bins[bin] += 1;
  } else {
    atomicAdd(&bins[bin], 1u);
  }
  __syncthreads();
  if (threadIdx.x < 4) out[threadIdx.x] = static_cast<float>(bins[threadIdx.x]);
}

template <bool kBroken>
__global__ void total(const float* in, float* out) {
  const float value = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (threadIdx.x != 0) return;
  if constexpr (kBroken) {
    *out += value;
  } else {
    atomicAdd(out, value);
  }
}

template <bool kBroken>
__global__ void reverse(float* data, float* other) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned count = gridDim.x * blockDim.x;
  float* out = kBroken ? data : other;
  out[count - 1 - i] = data[i] + 1.0f;
}

// The blocks' pieces overlap.
template <bool kBroken>
__global__ void fill(float* out, int count) {
  const int per_block = kBroken ? 60 : 64;
  const int first = static_cast<int>(blockIdx.x) * per_block;
  const int i = first + static_cast<int>(threadIdx.x);
  if (i < count) out[i] = static_cast<float>(i);
}

// The block that comes last adds up what the others have left.
template <bool kBroken>
__global__ void last_block(const float* in, float* partial, unsigned* tickets, float* out) {
  SIMT_SHARED(bool, last, );
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = in[blockIdx.x];
    if (!kBroken) __threadfence();
    last = atomicAdd(tickets, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
  *out = sum;
}

const std::vector<float>& numbers() {
  static const std::vector<float> values(128, 3.0f);
  return values;
}

template <Missing kMissing>
void run_normalise(bool broken) {
  const DeviceArray<float> in(numbers()), out(128);
  launch("normalise", broken ? normalise<kMissing> : normalise<Missing::nothing>, 1, 128, 0,
         nullptr, in.data(), out.data());
}

using Kernel = void (*)(const float*, float*);
template <Kernel kBad, Kernel kGood>
void run(bool broken) {
  const DeviceArray<float> in(numbers()), out(std::vector<float>(128, 0.0f));
  launch("race", broken ? kBad : kGood, 4, 32, 0, nullptr, in.data(), out.data());
}
template <Kernel kBad, Kernel kGood>
void run_one_block(bool broken) {
  const DeviceArray<float> in(numbers()), out(std::vector<float>(128, 0.0f));
  launch("race", broken ? kBad : kGood, 1, 32, 0, nullptr, in.data(), out.data());
}

}  // namespace

std::vector<Case> race_cases() {
  return {
      {"no barrier after the shared array is filled", Kind::shared_race, true,
       &run_normalise<Missing::first>},
      {"no barrier between the steps of a tree", Kind::shared_race, true,
       &run_normalise<Missing::inner>},
      {"no barrier before the shared array is used again", Kind::shared_race, true,
       &run_normalise<Missing::last>},
      {"no __syncwarp between the steps of a warp", Kind::shared_race, true,
       &run_one_block<warp_tree<true>, warp_tree<false>>},
      {"shared counters without atomics", Kind::shared_race, true,
       &run_one_block<histogram<true>, histogram<false>>},
      {"a sum over blocks without atomics", Kind::global_race, true,
       &run<total<true>, total<false>>},
      {"reversed in place", Kind::global_race, true,
       [](bool broken) {
         const DeviceArray<float> data(numbers()), other(128);
         launch("reverse", broken ? reverse<true> : reverse<false>, 4, 32, 0, nullptr, data.data(),
                other.data());
       }},
      {"blocks that overlap", Kind::global_race, true,
       [](bool broken) {
         const DeviceArray<float> out(256);
         launch("fill", broken ? fill<true> : fill<false>, 4, 64, 0, nullptr, out.data(), 240);
       }},
      {"the last block without a fence", Kind::global_race, true,
       [](bool broken) {
         const DeviceArray<float> in(numbers()), partial(8), out(1);
         const DeviceArray<unsigned> tickets(std::vector<unsigned>{0u});
         launch("last_block", broken ? last_block<true> : last_block<false>, 8, 32, 0, nullptr,
                in.data(), partial.data(), tickets.data(), out.data());
       }},
  };
}

}  // namespace simt::planted
