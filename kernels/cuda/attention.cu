// Attention forward on the GPU: a block has a tile of queries in shared memory and walks over tiles
// of keys with a running maximum and sum for each query. Here without tensor cores, for f32, f64
// and wide heads.
#include "tenon/kernels/cuda/attention_mma.h"
#include "tenon/kernels/cuda/attention_tiles.h"

namespace tenon::kernels::cuda {
namespace {

// A thread's rows of queries and keys, by what fits into shared memory and registers.
template <class C, int W>
struct ForwardTile {
  static constexpr int kQueryRows = sizeof(C) == 4 && W <= 128 ? 4 : 2;
  static constexpr int kKeyRows = sizeof(C) == 4 && W <= 64 ? 4 : 2;
  static constexpr int kQueries = kTileSide * kQueryRows;
  static constexpr int kKeys = kTileSide * kKeyRows;
  static constexpr int kValues = kQueries * kTileStride<C, W>;  // offsets
  static constexpr int kKeyTile = kKeys * kTileStride<C, W>;
  static constexpr int kElements = kValues + 2 * kKeyTile + kQueries * kTileStride<C, kKeys>;
};

// The scores of one query become weights relative to its running maximum; what was summed before
// has to be multiplied by the result.
template <int N, class C>
__device__ C weigh(TileThread thread, C scale, int seen, C (&scores)[N], C& peak, C& total) {
  C most = peak;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    scores[j] = thread.x + kTileSide * j < seen ? scores[j] * scale : minus_infinity<C>();
    most = MaxNumberOp()(most, scores[j]);
  }
  most = row_reduce(most, MaxNumberOp());
  const C shift = shift_of(most);
  const C factor = math::exp_not_positive(peak - shift);
  peak = most;
  total *= factor;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    scores[j] = math::exp_not_positive(scores[j] - shift);
    total += scores[j];
  }
  return factor;
}

template <class T, int W>
__global__ void __launch_bounds__(kTileThreads)
    attention_tiles(HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v, HeadRows<T> out,
                    Compute<T>* log_sum_exp, AttentionJob job) {
  using C = Compute<T>;
  using Tile = ForwardTile<C, W>;
  constexpr int R = Tile::kQueryRows;
  SIMT_DYNAMIC_SHARED(C, queries);
  C* const keys = queries + Tile::kValues;
  C* const values = keys + Tile::kKeyTile;
  C* const weights = values + Tile::kKeyTile;
  const TileThread thread;
  const auto [batch, head, tile] = job.last_first(job.heads, Tile::kQueries);
  const int64_t group = job.group_of(head);
  const int first = tile * Tile::kQueries;
  const int count = ::min(Tile::kQueries, job.queries - first);
  load_tile<kTileThreads, Tile::kQueries, W>(q, q.at(batch, head, first), count, job.width,
                                             queries);
  C sums[R][W / kTileSide] = {}, peaks[R], totals[R];
  for (int i = 0; i < R; ++i) {
    peaks[i] = minus_infinity<C>();
    totals[i] = 0;
  }
  const int end = job.seen(first + count - 1);
  for (int key = 0; key < end; key += Tile::kKeys) {
    const int there = ::min(Tile::kKeys, job.keys - key);
    __syncthreads();
    load_tile<kTileThreads, Tile::kKeys, W>(k, k.at(batch, group, key), there, job.width, keys);
    load_tile<kTileThreads, Tile::kKeys, W>(v, v.at(batch, group, key), there, job.width, values);
    __syncthreads();
    C scores[R][Tile::kKeyRows];
    multiply_rows<W>(thread, queries, keys, scores);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = thread.y + kTileSide * i;
      const C factor = weigh(thread, static_cast<C>(job.scale), job.seen(first + row) - key,
                             scores[i], peaks[i], totals[i]);
      for (int j = 0; j < W / kTileSide; ++j) sums[i][j] *= factor;
      for (int j = 0; j < Tile::kKeyRows; ++j) {
        weights[row * kTileStride<C, Tile::kKeys> + thread.x + kTileSide * j] = scores[i][j];
      }
    }
    __syncthreads();
    add_product<W, Tile::kKeys, Tile::kKeys, false>(thread, weights, values, sums);
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const C total = row_reduce(totals[i], AddOp());
    const int row = thread.y + kTileSide * i;
    if (thread.x == 0 && row < count) {
      log_sum_exp[job.row(batch, head, first + row)] = peaks[i] + math::log(total);
    }
    totals[i] = 1 / total;
  }
  store_sums<W>(thread, out, out.at(batch, head, first), count, job.width, sums, totals);
}

template <class T, int W>
void launch_tiles(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                  Tensor& log_sum_exp, const AttentionJob& job) {
  using C = Compute<T>;
  using Tile = ForwardTile<C, W>;
  simt::launch("attention", attention_tiles<T, W>, job.grid(job.heads, job.queries, Tile::kQueries),
               kTileThreads, Tile::kElements * sizeof(C), tenon::cuda::stream_of(q),
               HeadRows<const T>(q), HeadRows<const T>(k), HeadRows<const T>(v), HeadRows<T>(out),
               log_sum_exp.data<C>(), job);
}

void attention_cuda(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                    Tensor& log_sum_exp, const AttentionParams& params) {
  if (q.numel() == 0) return;
  const AttentionJob job("attention", q, k, params);
  dispatch_floating(q.dtype(), "attention", [&]<class T>() {
    const auto launch = [&]<int W>() { launch_tiles<T, W>(q, k, v, out, log_sum_exp, job); };
    if constexpr (sizeof(T) > 2) {
      with_width<64, 128, kMaxHeadWidth>(job.width, launch);
    } else if (job.width <= kMaxMmaWidth) {
      attention_mma<T>(q, k, v, out, log_sum_exp, job);
    } else {
      launch.template operator()<kMaxHeadWidth>();
    }
  });
}

[[maybe_unused]] const bool registered = attention.set(DeviceType::cuda, attention_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
