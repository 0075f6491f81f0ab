// Reductions over the threads of a warp, of a block, or of the columns of a block, for any value
// that can be copied bit by bit (numbers, pairs) and any operator. The operator must be commutative
// to the bit: then all threads get the same value, and it depends on the block's shape alone.
#pragma once

#include <cstdint>
#include <limits>

#include "tenon/kernels/cuda/simt.h"

namespace tenon::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMaxWarps = 32;           // of a block
inline constexpr int kMaxColumnThreads = 256;  // of a block that reduces columns
inline constexpr unsigned kFullMask = 0xffffffffu;

struct AddOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
// NaN is skipped unless both are: for the maximum that is subtracted before exp.
struct MaxNumberOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a || a != a ? b : a;
  }
};
// NaN wins.
struct MaxOp {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

// Two sums that are reduced together.
template <class T>
struct Pair {
  T a;
  T b;
};
struct AddPairOp {
  template <class T>
  __device__ Pair<T> operator()(Pair<T> x, Pair<T> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};

// The value of the lane whose number differs in the bits of `mask`; all lanes must call.
template <class T>
__device__ T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) % 4 == 0);
  struct Words {
    unsigned word[sizeof(T) / 4];
  };
  Words words = __builtin_bit_cast(Words, value);
  for (size_t i = 0; i < sizeof(T) / 4; ++i) {
    words.word[i] = __shfl_xor_sync(kFullMask, words.word[i], mask);
  }
  return __builtin_bit_cast(T, words);
}

// Over `width` neighbouring lanes (a power of two); every lane gets the result of its group.
template <class T, class Op>
__device__ T warp_reduce(T value, Op op, int width = kWarp) {
  for (int mask = width / 2; mask > 0; mask /= 2) value = op(value, shuffle_xor(value, mask));
  return value;
}

// Over a block of whole warps along x; every thread gets the result.
template <class T, class Op>
__device__ T block_reduce(T value, Op op, T identity) {
  value = warp_reduce(value, op);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return value;
  SIMT_SHARED(T, parts, [kMaxWarps]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? parts[lane] : identity, op);
  __syncthreads();  // the next reduction writes to `parts`
  return value;
}

// Over threadIdx.y for each threadIdx.x of a block of at most kMaxColumnThreads threads, with a
// power of two along y; every thread gets the result of its column.
template <class T, class Op>
__device__ T column_reduce(T value, Op op) {
  if (blockDim.y == 1) return value;
  SIMT_SHARED(T, parts, [kMaxColumnThreads]);
  T* const own = parts + threadIdx.y * blockDim.x + threadIdx.x;
  *own = value;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) *own = op(*own, own[half * blockDim.x]);
  }
  __syncthreads();
  value = parts[threadIdx.x];
  __syncthreads();  // the next reduction writes to `parts`
  return value;
}

}  // namespace tenon::kernels::cuda
