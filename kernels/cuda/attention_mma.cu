// Attention forward on tensor cores: as in attention.cu, but weights stay in registers. Values are
// copied to shared memory while scores are computed, and the next keys while values are added.
#include "tenon/kernels/cuda/attention_mma.h"

#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kKeys = 64;  // of a tile

// A query's scores are in 4 lanes. Over kN fragments of 8 keys, of which pair `half` is the row's;
// not kMasked: the query sees all of them.
template <bool kMasked, int kN>
__device__ float weigh(MmaThread thread, int half, float scale, int seen, float (&scores)[kN][4],
                       float& peak, float& total) {
  float most = peak;
#pragma unroll
  for (int i = 0; i < 2 * kN; ++i) {
    float& score = scores[i / 2][2 * half + i % 2];
    score *= scale;
    if (kMasked && i / 2 * 8 + thread.column + i % 2 >= seen) score = minus_infinity<float>();
    most = ::fmaxf(most, score);
  }
  most = warp_reduce(most, MaxNumberOp(), 4);
  const float shift = shift_of(most);
  const float factor = simt::exp2_of(peak - shift);
  peak = most;
  total *= factor;
#pragma unroll
  for (int i = 0; i < 2 * kN; ++i) {
    float& score = scores[i / 2][2 * half + i % 2];
    score = simt::exp2_of(score - shift);
    total += score;
  }
  return factor;
}

// Writes the log-sum-exp of the thread's queries; `totals` becomes what their sums are multiplied
// by.
__device__ inline void finish_sums(MmaThread thread, int count, float* log_sum_exp,
                                   const float (&peaks)[2], float (&totals)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = warp_reduce(totals[half], AddOp(), 4);
    const int row = thread.first + thread.row + half * 8;
    if (thread.lane % 4 == 0 && row < count) {
      log_sum_exp[row] = peaks[half] * kLn2 + math::log(total);
    }
    totals[half] = 1 / total;
  }
}

template <class T, int W>
__global__ void __launch_bounds__(kMmaThreads)
    attention_mma_tiles(HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                        HeadRows<T> out, float* log_sum_exp, AttentionJob job) {
  constexpr int kStride = kTileStride<T, W>;
  SIMT_DYNAMIC_SHARED(T, queries);
  T* const keys = queries + kMmaTile * kStride;
  T* const values = keys + kKeys * kStride;
  const MmaThread thread;
  const auto [batch, head, tile] = job.last_first(job.heads, kMmaTile);
  const int64_t group = job.group_of(head);
  const int first = tile * kMmaTile, count = ::min(kMmaTile, job.queries - first);
  const auto start_keys = [&](const HeadRows<const T>& operand, int key, T* to) {
    start_tile<kMmaThreads, kKeys, W>(operand, operand.at(batch, group, key), job.keys - key,
                                      job.width, to);
    simt::commit_copies();
  };
  start_tile<kMmaThreads, kMmaTile, W>(q, q.at(batch, head, first), count, job.width, queries);
  start_keys(k, 0, keys);
  T* const own = queries + thread.first * kStride;
  const float scale = static_cast<float>(job.scale) * kLog2E;
  float sums[W / 8][4] = {}, totals[2] = {};
  float peaks[2] = {minus_infinity<float>(), minus_infinity<float>()};
  const int end = job.seen(first + count - 1);
  for (int key = 0; key < end; key += kKeys) {
    simt::wait_copies<0>();
    __syncthreads();
    start_keys(v, key, values);
    const bool whole = key + kKeys <= job.seen(first);
    float scores[kKeys / 8][4];
    multiply_rows<T, kKeys, W>(thread, own, keys, scores);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int seen = job.seen(first + thread.first + thread.row + half * 8) - key;
      const float factor =
          whole ? weigh<false>(thread, half, scale, seen, scores, peaks[half], totals[half])
                : weigh<true>(thread, half, scale, seen, scores, peaks[half], totals[half]);
#pragma unroll
      for (int i = 0; i < W / 4; ++i) sums[i / 2][2 * half + i % 2] *= factor;
    }
    simt::wait_copies<0>();
    __syncthreads();
    if (key + kKeys < end) start_keys(k, key + kKeys, keys);
    add_product<T, kKeys, W>(thread, scores, values, sums);
  }
  finish_sums(thread, count, log_sum_exp + job.row(batch, head, first), peaks, totals);
  store_sums<T, W>(thread, out, out.at(batch, head, first + thread.first), count - thread.first,
                   job.width, sums, totals, own);
}

}  // namespace

template <class T>
void attention_mma(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                   Tensor& log_sum_exp, const AttentionJob& job) {
  with_width<32, 64, 96, kMaxMmaWidth>(job.width, [&]<int W>() {
    simt::launch("attention", attention_mma_tiles<T, W>, job.grid(job.heads, job.queries, kMmaTile),
                 kMmaThreads, (kMmaTile + 2 * kKeys) * kTileStride<T, W> * sizeof(T),
                 tenon::cuda::stream_of(q), HeadRows<const T>(q), HeadRows<const T>(k),
                 HeadRows<const T>(v), HeadRows<T>(out), log_sum_exp.data<float>(), job);
  });
}
template void attention_mma<BFloat16>(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&,
                                      const AttentionJob&);
template void attention_mma<Float16>(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&,
                                     const AttentionJob&);

}  // namespace tenon::kernels::cuda
