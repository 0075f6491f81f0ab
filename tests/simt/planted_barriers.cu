// Bugs with barriers and with warp functions.
#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/planted.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::planted {
namespace {

using testing::DeviceArray;

template <bool kBroken>
__global__ void divergent_barrier(int* data) {
  SIMT_SHARED(int, copy, [64]);
  const int i = static_cast<int>(threadIdx.x);
  copy[i] = data[i];
  if constexpr (kBroken) {
    if (i < 32) {
      __syncthreads();
      data[i] = copy[63 - i];
    } else {
      __syncthreads();
      data[i] = copy[63 - i] + 1;
    }
  } else {
    __syncthreads();
    data[i] = copy[63 - i] + (i < 32 ? 0 : 1);
  }
}

// The last block is not full; its spare threads leave before the barrier.
template <bool kBroken>
__global__ void early_return(int* data, int count) {
  SIMT_SHARED(int, copy, [64]);
  const int i = static_cast<int>(blockIdx.x * 64 + threadIdx.x);
  if (kBroken && i >= count) return;
  copy[threadIdx.x] = i < count ? data[i] : 0;
  __syncthreads();
  if (i < count) data[i] = copy[threadIdx.x ^ 1];
}

template <bool kBroken>
__global__ void trip_count(int* data, int count) {
  SIMT_SHARED(int, copy, [64]);
  const int thread = static_cast<int>(threadIdx.x);
  const int end = kBroken ? count : (count + 63) / 64 * 64;
  int sum = 0;
  for (int i = thread; i < end; i += 64) {
    copy[thread] = i < count ? data[i] : 0;
    __syncthreads();
    sum += copy[63 - thread];
    __syncthreads();
  }
  copy[thread] = sum;
  __syncthreads();
  data[thread] = copy[thread ^ 1];
}

template <bool kBroken>
__global__ void branch_of_a_warp(int* data) {
  const int i = static_cast<int>(threadIdx.x);
  int value = data[i];
  if (!kBroken || i < 16) value += __shfl_xor_sync(0xffffffffu, value, 1);
  __syncthreads();
  data[i] = value;
}

template <bool kBroken>
__global__ void too_much_shared(int* data) {
  constexpr int kSize = kBroken ? 12289 : 12288;  // 48 KB are allowed
  SIMT_SHARED(int, big, [kSize]);
  big[threadIdx.x] = data[threadIdx.x];
  data[threadIdx.x] = big[threadIdx.x] + 1;
}

template <bool kBroken>
__global__ void source_outside_mask(int* data) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= 16) return;
  int sum = data[lane];
  for (int delta = kBroken ? 16 : 8; delta > 0; delta /= 2) {
    sum += __shfl_down_sync(0x0000ffffu, sum, static_cast<unsigned>(delta), kBroken ? 32 : 16);
  }
  if (lane == 0) data[0] = sum;
}

template <bool kBroken>
__global__ void tail_lanes(int* data, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (kBroken && i >= count) return;
  int sum = i < count ? data[i] : 0;
  for (unsigned delta = 16; delta > 0; delta /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, static_cast<int>(delta));
  }
  if (i == 0) data[0] = sum;
}

template <bool kBroken>
__global__ void differing_masks(unsigned* data) {
  const unsigned lane = threadIdx.x;
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  const unsigned mask = kBroken ? half | (0x11u << lane % 16) : half;
  data[lane] = __ballot_sync(mask, lane % 2 == 0);
}

template <bool kBroken>
__global__ void not_in_own_mask(int* data) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = kBroken ? 0x7fffffffu : 0xffffffffu;  // the last lane is left out
  data[lane] = __any_sync(mask, data[lane] > 3);
}

template <bool kBroken>
__global__ void two_shuffles(int* data) {
  const int lane = static_cast<int>(threadIdx.x);
  int value = data[lane];
  if constexpr (kBroken) {
    if (lane % 2 == 0) {
      value += __shfl_down_sync(0xffffffffu, value, 1);
    } else {
      value += __shfl_up_sync(0xffffffffu, value, 1);
    }
  } else {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
  }
  data[lane] = value;
}

const std::vector<int>& numbers() {
  static const std::vector<int> values(100, 3);
  return values;
}

// As a function of `broken`, for a kernel that takes the data alone.
#define PLANTED(kernel, threads)                                                                 \
  [](bool broken) {                                                                              \
    const DeviceArray<int> data(numbers());                                                      \
    launch(#kernel, broken ? kernel<true> : kernel<false>, 1, threads, 0, nullptr, data.data()); \
  }

}  // namespace

std::vector<Case> barrier_cases() {
  return {
      {"a barrier in each branch", Kind::divergent_barrier, false, PLANTED(divergent_barrier, 64)},
      {"a return before the barrier", Kind::barrier_after_exit, false,
       [](bool broken) {
         const DeviceArray<int> data(numbers());
         launch("early_return", broken ? early_return<true> : early_return<false>, 2, 64, 0,
                nullptr, data.data(), 100);
       }},
      {"a loop with barriers that some threads leave earlier", Kind::divergent_barrier, false,
       [](bool broken) {
         const DeviceArray<int> data(numbers());
         launch("trip_count", broken ? trip_count<true> : trip_count<false>, 1, 64, 0, nullptr,
                data.data(), 100);
       }},
      {"half a warp shuffles, the other half waits", Kind::deadlock, false,
       PLANTED(branch_of_a_warp, 64)},
      {"more shared memory than there is", Kind::shared_limit, false, PLANTED(too_much_shared, 64)},
  };
}

std::vector<Case> warp_cases() {
  return {
      {"a value from outside the mask", Kind::shuffle_source, false,
       PLANTED(source_outside_mask, 32)},
      {"a value from a thread that has ended", Kind::shuffle_source, false,
       [](bool broken) {
         const DeviceArray<int> data(numbers());
         launch("tail_lanes", broken ? tail_lanes<true> : tail_lanes<false>, 1, 32, 0, nullptr,
                data.data(), 20);
       }},
      {"lanes with different masks", Kind::mask_mismatch, false,
       [](bool broken) {
         const DeviceArray<unsigned> data(32);
         launch("differing_masks", broken ? differing_masks<true> : differing_masks<false>, 1, 32,
                0, nullptr, data.data());
       }},
      {"a lane that is not in its own mask", Kind::lane_outside_mask, false,
       PLANTED(not_in_own_mask, 32)},
      {"a different shuffle in each branch", Kind::divergent_collective, false,
       PLANTED(two_shuffles, 32)},
  };
}

}  // namespace simt::planted
