// Attention on tensor cores, for 16-bit types and heads of at most kMaxMmaWidth: a warp has 16 rows
// of a tile and all columns, sums are f32 in the fragments' layout (mma.h).
#pragma once

#include "tenon/kernels/cuda/attention_job.h"
#include "tenon/kernels/cuda/mma.h"

namespace tenon::kernels::cuda {

inline constexpr int kMaxMmaWidth = 128;
inline constexpr int kMmaThreads = 128;
inline constexpr int kMmaRows = 16;                              // of a warp
inline constexpr int kMmaTile = kMmaRows * kMmaThreads / kWarp;  // of a block
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

template <class T>
void attention_mma(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                   Tensor& log_sum_exp, const AttentionJob& job);
template <class T>
void attention_backward_mma(const AttentionGradients& tensors, const AttentionJob& job);

// Where the calling thread's fragments lie in its warp's 16 rows: rows row and row + 8, columns
// column and column + 1 of every 8.
struct MmaThread {
  __device__ MmaThread()
      : lane(static_cast<int>(threadIdx.x) % kWarp),
        first(static_cast<int>(threadIdx.x) / kWarp * kMmaRows),
        row(lane / 4),
        column(lane % 4 * 2) {}

  int lane;
  int first;  // row of the warp in the block's tile
  int row, column;
};

// sums = 16 rows at `a` times rows [0, kRows) of b, all of kWidth elements.
template <class T, int kRows, int kWidth>
__device__ void multiply_rows(MmaThread thread, const T* a, const T* b,
                              float (&sums)[kRows / 8][4]) {
  constexpr int kStride = kTileStride<T, kWidth>;
  const int lane = thread.lane;
  a += lane % 16 * kStride + lane / 16 * 8;
  b += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i / 4][i % 4] = 0;
#pragma unroll
  for (int at = 0; at < kWidth; at += 16) {
    unsigned left[4];
    simt::load_matrices(a + at, left);
#pragma unroll
    for (int row = 0; row < kRows; row += 16) {
      unsigned right[4];
      simt::load_matrices(b + row * kStride + at, right);
      simt::multiply_16x8x16<T>(left, right[0], right[1], sums[row / 8]);
      simt::multiply_16x8x16<T>(left, right[2], right[3], sums[row / 8 + 1]);
    }
  }
}

// sums += weights, which are 16 rows of kRows as multiply_rows left them, times kRows rows of b.
template <class T, int kRows, int kWidth>
__device__ void add_product(MmaThread thread, const float (&weights)[kRows / 8][4], const T* b,
                            float (&sums)[kWidth / 8][4]) {
  constexpr int kStride = kTileStride<T, kWidth>;
  b += thread.lane % 16 * kStride + thread.lane / 16 * 8;
#pragma unroll
  for (int row = 0; row < kRows; row += 16) {
    unsigned left[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pairs)[4] = weights[row / 8 + i / 2];
      left[i] = simt::pack_pair<T>(pairs[i % 2 * 2], pairs[i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int at = 0; at < kWidth; at += 16) {
      unsigned right[4];
      simt::load_transposed(b + row * kStride + at, right);
      simt::multiply_16x8x16<T>(left, right[0], right[1], sums[at / 8]);
      simt::multiply_16x8x16<T>(left, right[2], right[3], sums[at / 8 + 1]);
    }
  }
}

// The first `count` of the warp's 16 rows to row 0 at `to`: sums times factors[0], and of the lower
// 8 rows factors[1]. By way of `tile`, 16 rows of shared memory that only this warp uses.
template <class T, int kWidth>
__device__ void store_sums(MmaThread thread, const HeadRows<T>& operand, T* to, int count,
                           int width, const float (&sums)[kWidth / 8][4], const float (&factors)[2],
                           T* tile) {
  constexpr int kStride = kTileStride<T, kWidth>, V = kLanes<T>;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kWidth / 4; ++i) {
    const float(&four)[4] = sums[i / 2];
    const float factor = factors[i % 2];
    *reinterpret_cast<unsigned*>(tile + (thread.row + i % 2 * 8) * kStride + i / 2 * 8 +
                                 thread.column) =
        simt::pack_pair<T>(four[i % 2 * 2] * factor, four[i % 2 * 2 + 1] * factor);
  }
  __syncwarp();
  for (int i = thread.lane; i < kMmaRows * kWidth / V; i += kWarp) {
    const int row = i / (kWidth / V), column = i % (kWidth / V) * V;
    if (row >= count) continue;
    operand.store(to + row * operand.row, column, width,
                  load_packed<V>(tile + row * kStride + column));
  }
}

}  // namespace tenon::kernels::cuda
