// Attention backward on the GPU. Weights are computed again from the scores and each query's
// log-sum-exp, twice: a block of the first kernel has a tile of keys and walks over the queries of
// all heads that read them, one of the second has a tile of queries and walks over keys. So every
// gradient is a sum in a fixed order. Here without tensor cores, for f32, f64 and wide heads.
#include "tenon/kernels/cuda/attention_mma.h"
#include "tenon/kernels/cuda/attention_tiles.h"
#include "tenon/kernels/cuda/walk.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kRowLanes = 8;  // of a row of out and dout
constexpr int kProductThreads = 256;

// out . dout of each query.
template <class T>
__global__ void __launch_bounds__(kProductThreads)
    row_products(HeadRows<const T> out, HeadRows<const T> dout, Compute<T>* products, int64_t rows,
                 int64_t heads, int64_t queries, Divisor by_heads, Divisor by_queries, int width) {
  using C = Compute<T>;
  const int64_t row =
      (int64_t{blockIdx.x} * kProductThreads + threadIdx.x) / static_cast<unsigned>(kRowLanes);
  C sum = 0;
  if (row < rows) {
    const int64_t head = by_queries.divide(row), query = row - head * queries;
    const int64_t batch = by_heads.divide(head), at = head - batch * heads;
    const T* const a = out.at(batch, at, query);
    const T* const b = dout.at(batch, at, query);
    for (int column = static_cast<int>(threadIdx.x) % kRowLanes * kLanes<T>; column < width;
         column += kRowLanes * kLanes<T>) {
      const auto left = out.load(a, column, width), right = dout.load(b, column, width);
      for (int j = 0; j < kLanes<T>; ++j) {
        sum += static_cast<C>(left.value[j]) * static_cast<C>(right.value[j]);
      }
    }
  }
  sum = warp_reduce(sum, AddOp(), kRowLanes);
  if (row < rows && threadIdx.x % kRowLanes == 0) products[row] = sum;
}

// A tile has kRows of a thread's rows, of queries as of keys; by what fits into shared memory.
template <class C, int W>
struct BackwardTile {
  static constexpr int kRows = sizeof(C) == 4 ? (W <= 64 ? 4 : 2) : (W <= 128 ? 2 : 1);
  static constexpr int kSide = kTileSide * kRows;
  static constexpr int kTile = kSide * kTileStride<C, W>;         // elements
  static constexpr int kWeights = kSide * kTileStride<C, kSide>;  // elements
  static constexpr int kBytes = (4 * kTile + 2 * kWeights) * static_cast<int>(sizeof(C));
};

// The tiles of a block in shared memory.
template <class T, int W>
struct BackwardTiles {
  using C = Compute<T>;
  using Tile = BackwardTile<C, W>;
  static constexpr int R = Tile::kRows;

  __device__ BackwardTiles(const BackwardInputs<T>& given, const AttentionJob& sizes, C* memory)
      : inputs(given),
        job(sizes),
        queries(memory),
        gradients(queries + Tile::kTile),
        keys(gradients + Tile::kTile),
        values(keys + Tile::kTile),
        weights(values + Tile::kTile),
        slopes(weights + Tile::kWeights) {}

  __device__ void load_queries(int64_t batch, int64_t head, int first) const {
    const int count = job.queries - first;
    load_tile<kTileThreads, Tile::kSide, W>(inputs.q, inputs.q.at(batch, head, first), count,
                                            job.width, queries);
    load_tile<kTileThreads, Tile::kSide, W>(inputs.dout, inputs.dout.at(batch, head, first), count,
                                            job.width, gradients);
  }
  __device__ void load_keys(int64_t batch, int64_t group, int first) const {
    const int count = job.keys - first;
    load_tile<kTileThreads, Tile::kSide, W>(inputs.k, inputs.k.at(batch, group, first), count,
                                            job.width, keys);
    load_tile<kTileThreads, Tile::kSide, W>(inputs.v, inputs.v.at(batch, group, first), count,
                                            job.width, values);
  }
  // Weights, and the gradients of scores, for the queries from `first` on and the keys from `key`.
  __device__ void weigh(int64_t batch, int64_t head, int first, int key) const {
    C scores[R][R], products[R][R];
    multiply_rows<W>(thread, queries, keys, scores);
    multiply_rows<W>(thread, gradients, values, products);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = thread.y + kTileSide * i, query = first + row;
      const bool exists = query < job.queries;
      const int64_t at = exists ? job.row(batch, head, query) : 0;
      const C log_sum = exists ? inputs.log_sum_exp[at] : C(0);
      const C product = exists ? inputs.products[at] : C(0);
      const int seen = exists ? job.seen(query) - key : 0;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int column = thread.x + kTileSide * j;
        const int place = row * kTileStride<C, Tile::kSide> + column;
        const C weight =
            column < seen
                ? math::exp_not_positive(scores[i][j] * static_cast<C>(job.scale) - log_sum)
                : C(0);
        weights[place] = weight;
        slopes[place] = column < seen ? weight * (products[i][j] - product) : C(0);
      }
    }
  }

  const BackwardInputs<T>& inputs;
  const AttentionJob& job;
  const TileThread thread{};
  C *const queries, *const gradients, *const keys, *const values, *const weights, *const slopes;
};

template <int R, class C>
__device__ void fill_factors(C (&factors)[R], C value) {
  for (int i = 0; i < R; ++i) factors[i] = value;
}

template <class T, int W>
__global__ void __launch_bounds__(kTileThreads)
    key_gradients(BackwardInputs<T> inputs, HeadRows<T> dk, HeadRows<T> dv, AttentionJob job) {
  using C = Compute<T>;
  using Tile = BackwardTile<C, W>;
  constexpr int R = Tile::kRows;
  SIMT_DYNAMIC_SHARED(C, memory);
  const BackwardTiles<T, W> tiles(inputs, job, memory);
  const auto [batch, group, tile] = job.place(job.groups);
  const int key = tile * Tile::kSide, count = job.keys - key;
  const int64_t in_group = job.heads / job.groups;
  tiles.load_keys(batch, group, key);
  C key_sums[R][W / kTileSide] = {}, value_sums[R][W / kTileSide] = {};
  const int begin = job.first_query(key) / Tile::kSide * Tile::kSide;
  for (int64_t head = group * in_group; head < (group + 1) * in_group; ++head) {
    for (int first = begin; first < job.queries; first += Tile::kSide) {
      __syncthreads();
      tiles.load_queries(batch, head, first);
      __syncthreads();
      tiles.weigh(batch, head, first, key);
      __syncthreads();
      add_product<W, Tile::kSide, Tile::kSide, true>(tiles.thread, tiles.weights, tiles.gradients,
                                                     value_sums);
      add_product<W, Tile::kSide, Tile::kSide, true>(tiles.thread, tiles.slopes, tiles.queries,
                                                     key_sums);
    }
  }
  C factors[R];
  fill_factors(factors, C(1));
  store_sums<W>(tiles.thread, dv, dv.at(batch, group, key), count, job.width, value_sums, factors);
  fill_factors(factors, static_cast<C>(job.scale));
  store_sums<W>(tiles.thread, dk, dk.at(batch, group, key), count, job.width, key_sums, factors);
}

template <class T, int W>
__global__ void __launch_bounds__(kTileThreads)
    query_gradients(BackwardInputs<T> inputs, HeadRows<T> dq, AttentionJob job) {
  using C = Compute<T>;
  using Tile = BackwardTile<C, W>;
  constexpr int R = Tile::kRows;
  SIMT_DYNAMIC_SHARED(C, memory);
  const BackwardTiles<T, W> tiles(inputs, job, memory);
  const auto [batch, head, tile] = job.last_first(job.heads, Tile::kSide);
  const int first = tile * Tile::kSide, count = ::min(Tile::kSide, job.queries - first);
  tiles.load_queries(batch, head, first);
  C sums[R][W / kTileSide] = {}, factors[R];
  const int end = job.seen(first + count - 1);
  for (int key = 0; key < end; key += Tile::kSide) {
    __syncthreads();
    tiles.load_keys(batch, job.group_of(head), key);
    __syncthreads();
    tiles.weigh(batch, head, first, key);
    __syncthreads();
    add_product<W, Tile::kSide, Tile::kSide, false>(tiles.thread, tiles.slopes, tiles.keys, sums);
  }
  fill_factors(factors, static_cast<C>(job.scale));
  store_sums<W>(tiles.thread, dq, dq.at(batch, head, first), count, job.width, sums, factors);
}

template <class T, int W>
void launch_tiles(const AttentionGradients& tensors, const AttentionJob& job) {
  using C = Compute<T>;
  using Tile = BackwardTile<C, W>;
  constexpr const char* op = "attention_backward";
  const BackwardInputs<T> inputs(tensors);
  const cudaStream_t stream = tenon::cuda::stream_of(tensors.q);
  simt::launch(op, key_gradients<T, W>, job.grid(job.groups, job.keys, Tile::kSide), kTileThreads,
               Tile::kBytes, stream, inputs, HeadRows<T>(tensors.dk), HeadRows<T>(tensors.dv), job);
  simt::launch(op, query_gradients<T, W>, job.grid(job.heads, job.queries, Tile::kSide),
               kTileThreads, Tile::kBytes, stream, inputs, HeadRows<T>(tensors.dq), job);
}

template <class T>
void launch_products(const Tensor& out, const Tensor& dout, Compute<T>* products,
                     const AttentionJob& job) {
  const int64_t rows = job.batches * job.heads * job.queries;
  constexpr int64_t kRows = kProductThreads / kRowLanes;  // of a block
  simt::launch("attention_backward", row_products<T>,
               dim3(static_cast<unsigned>((rows + kRows - 1) / kRows)), kProductThreads, 0,
               tenon::cuda::stream_of(out), HeadRows<const T>(out), HeadRows<const T>(dout),
               products, rows, job.heads, int64_t{job.queries}, Divisor(job.heads),
               Divisor(job.queries), job.width);
}

void attention_backward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                             const Tensor& log_sum_exp, const Tensor& dout, Tensor& dq, Tensor& dk,
                             Tensor& dv, const AttentionParams& params) {
  if (k.numel() == 0) return;
  constexpr const char* op = "attention_backward";
  const AttentionJob job(op, q, k, params);
  const tenon::cuda::Scratch scratch(q.device(), log_sum_exp.nbytes());
  const AttentionGradients tensors{q, k, v, log_sum_exp, dout, scratch.data<void>(), dq, dk, dv};
  dispatch_floating(q.dtype(), op, [&]<class T>() {
    launch_products<T>(out, dout, scratch.data<Compute<T>>(), job);
    const auto launch = [&]<int W>() { launch_tiles<T, W>(tensors, job); };
    if constexpr (sizeof(T) > 2) {
      with_width<64, 128, kMaxHeadWidth>(job.width, launch);
    } else if (job.width <= kMaxMmaWidth) {
      attention_backward_mma<T>(tensors, job);
    } else {
      launch.template operator()<kMaxHeadWidth>();
    }
  });
}

[[maybe_unused]] const bool registered =
    attention_backward.set(DeviceType::cuda, attention_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
