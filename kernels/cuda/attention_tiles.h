// Products of tiles in shared memory without tensor cores, by blocks of 16 x 16 threads: thread (x,
// y) has rows y + 16 i, and either columns x + 16 j or groups of 16 bytes of columns, x + 16 g.
#pragma once

#include "tenon/kernels/cuda/attention_job.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {

inline constexpr int kTileSide = 16;
inline constexpr int kTileThreads = kTileSide * kTileSide;

struct TileThread {
  __device__ TileThread()
      : x(static_cast<int>(threadIdx.x) % kTileSide),
        y(static_cast<int>(threadIdx.x) / kTileSide) {}

  int x, y;
};

// Sums of a row over all x.
template <class C, class Op>
__device__ C row_reduce(C value, Op op) {
  return warp_reduce(value, op, kTileSide);
}

// sums[i][j] = row y + 16 i of a times row x + 16 j of b; rows have kWidth elements.
template <int kWidth, int RA, int RB, class C>
__device__ void multiply_rows(TileThread thread, const C* a, const C* b, C (&sums)[RA][RB]) {
  constexpr int V = kLanes<C>, kStride = kTileStride<C, kWidth>;
#pragma unroll
  for (int i = 0; i < RA * RB; ++i) sums[i / RB][i % RB] = 0;
  [[maybe_unused]] constexpr int kSteps = RA * RB > 8 ? 1 : 2;  // more registers spill
#pragma unroll kSteps
  for (int at = 0; at < kWidth; at += V) {
    Packed<C, V> left[RA], right[RB];
#pragma unroll
    for (int i = 0; i < RA; ++i) {
      left[i] = load_packed<V>(a + (thread.y + kTileSide * i) * kStride + at);
    }
#pragma unroll
    for (int j = 0; j < RB; ++j) {
      right[j] = load_packed<V>(b + (thread.x + kTileSide * j) * kStride + at);
    }
#pragma unroll
    for (int i = 0; i < RA * RB * V; ++i) {
      C& sum = sums[i / V / RB][i / V % RB];
      sum = math::detail::multiply_add(left[i / V / RB].value[i % V],
                                       right[i / V % RB].value[i % V], sum);
    }
  }
}

// sums[i] += over kCount rows r of b: the weight of (y + 16 i, r) times the columns of the thread.
// Weights are rows of kTileStride<C, kRow>, or their transpose.
template <int kWidth, int kCount, int kRow, bool transposed, int R, class C>
__device__ void add_product(TileThread thread, const C* weights, const C* b,
                            C (&sums)[R][kWidth / kTileSide]) {
  constexpr int V = kLanes<C>, kStride = kTileStride<C, kWidth>, kWeights = kTileStride<C, kRow>;
  [[maybe_unused]] constexpr int kSteps = R * kWidth * static_cast<int>(sizeof(C)) > 1024 ? 1 : 2;
#pragma unroll kSteps
  for (int r = 0; r < kCount; ++r) {
    C weight[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = thread.y + kTileSide * i;
      weight[i] = weights[transposed ? r * kWeights + row : row * kWeights + r];
    }
#pragma unroll
    for (int at = 0; at < kWidth / kTileSide; at += V) {
      const auto values = load_packed<V>(b + r * kStride + kTileSide * at + thread.x * V);
#pragma unroll
      for (int i = 0; i < R * V; ++i) {
        C& sum = sums[i / V][at + i % V];
        sum = math::detail::multiply_add(weight[i / V], values.value[i % V], sum);
      }
    }
  }
}

// The first `count` rows of a tile: the thread's sums times factors[i], to row 0 at `to`.
template <int kWidth, int R, class T, class C>
__device__ void store_sums(TileThread thread, const HeadRows<T>& operand, T* to, int count,
                           int width, const C (&sums)[R][kWidth / kTileSide],
                           const C (&factors)[R]) {
  constexpr int V = kLanes<C>;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = thread.y + kTileSide * i;
    if (row >= count) continue;
#pragma unroll
    for (int at = 0; at < kWidth / kTileSide; at += V) {
      Packed<T, V> values;
#pragma unroll
      for (int j = 0; j < V; ++j) values.value[j] = static_cast<T>(sums[i][at + j] * factors[i]);
      operand.store(to + row * operand.row, kTileSide * at + thread.x * V, width, values);
    }
  }
}

}  // namespace tenon::kernels::cuda
