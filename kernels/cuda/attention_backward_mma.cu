// Attention backward on tensor cores: as in attention_backward.cu, but weights stay in registers.
// In the kernel for keys they are transposed, so that a warp's 16 rows are keys. While a block
// works on one of the tiles that it walks over, the next one is copied to shared memory.
#include "tenon/kernels/cuda/attention_mma.h"

namespace tenon::kernels::cuda {
namespace {

// Rows of the tiles that a block walks over, by what the sums leave of the registers.
template <int W>
inline constexpr int kWalked = W <= 64 ? 64 : 32;

// The kernel for keys has these of the walked queries in shared memory.
template <int W>
struct QuerySums {
  float log_sum[kWalked<W>];  // base 2
  float product[kWalked<W>];
};

template <int W>
__device__ void load_query_sums(const float* log_sum_exp, const float* products, int count,
                                QuerySums<W>& sums) {
  for (int i = static_cast<int>(threadIdx.x); i < kWalked<W>; i += kMmaThreads) {
    sums.log_sum[i] = i < count ? log_sum_exp[i] * kLog2E : 0;
    sums.product[i] = i < count ? products[i] : 0;
  }
}

// Weight and gradient of a score, in place of the score and of v . dout.
__device__ inline void weigh(bool seen, float scale, float log_sum, float product, float& score,
                             float& slope) {
  score = seen ? simt::exp2_of(score * scale - log_sum) : 0;
  slope = seen ? score * (slope - product) : 0;
}

// All of a warp's keys, for the queries from `first` on.
template <int W>
__device__ void weigh_keys(MmaThread thread, const AttentionJob& job, int first, int key,
                           const QuerySums<W>& sums, float (&weights)[kWalked<W> / 8][4],
                           float (&slopes)[kWalked<W> / 8][4]) {
  const float scale = static_cast<float>(job.scale) * kLog2E;
#pragma unroll
  for (int i = 0; i < kWalked<W> / 2; ++i) {
    const int row = i / 4 * 8 + thread.column + i % 2, query = first + row;
    const int own_key = key + thread.first + thread.row + i / 2 % 2 * 8;
    weigh(query < job.queries && own_key < job.seen(query), scale, sums.log_sum[row],
          sums.product[row], weights[i / 4][i % 4], slopes[i / 4][i % 4]);
  }
}

// Two operands' tiles that are walked over: one to work on, one that comes.
template <class T, int W>
struct Walked {
  static constexpr int kTile = kWalked<W> * kTileStride<T, W>;

  __device__ T* first(int number) const { return tiles + number % 2 * 2 * kTile; }
  __device__ T* second(int number) const { return first(number) + kTile; }
  __device__ void start(int number, const HeadRows<const T>& a, const HeadRows<const T>& b,
                        int64_t batch, int64_t head, int row, int count, int width) const {
    start_tile<kMmaThreads, kWalked<W>, W>(a, a.at(batch, head, row), count, width, first(number));
    start_tile<kMmaThreads, kWalked<W>, W>(b, b.at(batch, head, row), count, width, second(number));
    simt::commit_copies();
  }

  T* tiles;
};

// kMmaTile rows of two operands, which stay.
template <class T, int W>
__device__ void start_own(const HeadRows<const T>& a, const HeadRows<const T>& b, int64_t batch,
                          int64_t head, int row, int count, int width, T* tiles) {
  start_tile<kMmaThreads, kMmaTile, W>(a, a.at(batch, head, row), count, width, tiles);
  start_tile<kMmaThreads, kMmaTile, W>(b, b.at(batch, head, row), count, width,
                                       tiles + kMmaTile * kTileStride<T, W>);
}

template <class T, int W>
__global__ void __launch_bounds__(kMmaThreads)
    key_gradients_mma(BackwardInputs<T> inputs, HeadRows<T> dk, HeadRows<T> dv, AttentionJob job) {
  constexpr int kStride = kTileStride<T, W>, kQueries = kWalked<W>;
  SIMT_DYNAMIC_SHARED(T, keys);
  SIMT_SHARED(QuerySums<W>, query_sums, [2]);
  const Walked<T, W> walked{keys + 2 * kMmaTile * kStride};
  const MmaThread thread;
  const auto [batch, group, tile] = job.place(job.groups);
  const int key = tile * kMmaTile, count = job.keys - key;
  const int begin = job.first_query(key) / kQueries * kQueries;
  const int in_head = (job.queries - begin + kQueries - 1) / kQueries;
  const int in_group = static_cast<int>(job.heads / job.groups);
  const auto start_queries = [&](int number) {
    const int64_t head = group * in_group + number / in_head;
    const int first = begin + number % in_head * kQueries, there = job.queries - first;
    const int64_t row = job.row(batch, head, first);
    walked.start(number, inputs.q, inputs.dout, batch, head, first, there, job.width);
    load_query_sums<W>(inputs.log_sum_exp + row, inputs.products + row, there,
                       query_sums[number % 2]);
  };
  if (in_head > 0) {
    start_own<T, W>(inputs.k, inputs.v, batch, group, key, count, job.width, keys);
    start_queries(0);
  }
  T* const own_keys = keys + thread.first * kStride;
  T* const own_values = own_keys + kMmaTile * kStride;
  float key_sums[W / 8][4] = {}, value_sums[W / 8][4] = {};
  for (int number = 0; number < in_head * in_group; ++number) {
    simt::wait_copies<0>();
    __syncthreads();
    if (number + 1 < in_head * in_group) start_queries(number + 1);
    const T* const queries = walked.first(number);
    const T* const gradients = walked.second(number);
    const int first = begin + number % in_head * kQueries;
    float weights[kQueries / 8][4], slopes[kQueries / 8][4];
    multiply_rows<T, kQueries, W>(thread, own_keys, queries, weights);
    multiply_rows<T, kQueries, W>(thread, own_values, gradients, slopes);
    weigh_keys<W>(thread, job, first, key, query_sums[number % 2], weights, slopes);
    add_product<T, kQueries, W>(thread, weights, gradients, value_sums);
    add_product<T, kQueries, W>(thread, slopes, queries, key_sums);
  }
  const int left = count - thread.first;
  const float factor = static_cast<float>(job.scale);
  store_sums<T, W>(thread, dv, dv.at(batch, group, key + thread.first), left, job.width, value_sums,
                   {1, 1}, own_values);
  store_sums<T, W>(thread, dk, dk.at(batch, group, key + thread.first), left, job.width, key_sums,
                   {factor, factor}, own_keys);
}

template <class T, int W>
__global__ void __launch_bounds__(kMmaThreads, 2)
    query_gradients_mma(BackwardInputs<T> inputs, HeadRows<T> dq, AttentionJob job) {
  constexpr int kStride = kTileStride<T, W>, kKeys = kWalked<W>;
  SIMT_DYNAMIC_SHARED(T, queries);
  const Walked<T, W> walked{queries + 2 * kMmaTile * kStride};
  const MmaThread thread;
  const auto [batch, head, tile] = job.last_first(job.heads, kMmaTile);
  const int64_t group = job.group_of(head);
  const int first = tile * kMmaTile, count = ::min(kMmaTile, job.queries - first);
  const auto start_keys = [&](int number) {
    const int key = number * kKeys;
    walked.start(number, inputs.k, inputs.v, batch, group, key, job.keys - key, job.width);
  };
  start_own<T, W>(inputs.q, inputs.dout, batch, head, first, count, job.width, queries);
  start_keys(0);
  T* const own_queries = queries + thread.first * kStride;
  T* const own_gradients = own_queries + kMmaTile * kStride;
  float log_sums[2], products[2], sums[W / 8][4] = {};
  for (int half = 0; half < 2; ++half) {
    const int own = thread.first + thread.row + half * 8;
    const int64_t row = job.row(batch, head, first + own);
    log_sums[half] = own < count ? inputs.log_sum_exp[row] * kLog2E : 0;
    products[half] = own < count ? inputs.products[row] : 0;
  }
  const float scale = static_cast<float>(job.scale) * kLog2E;
  const int end = job.seen(first + count - 1);
  for (int number = 0; number * kKeys < end; ++number) {
    simt::wait_copies<0>();
    __syncthreads();
    if ((number + 1) * kKeys < end) start_keys(number + 1);
    const T* const keys = walked.first(number);
    float weights[kKeys / 8][4], slopes[kKeys / 8][4];
    multiply_rows<T, kKeys, W>(thread, own_queries, keys, weights);
    multiply_rows<T, kKeys, W>(thread, own_gradients, walked.second(number), slopes);
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int half = i / 2 % 2, own = thread.first + thread.row + half * 8;
      const int key = number * kKeys + i / 4 * 8 + thread.column + i % 2;
      weigh(own < count && key < job.seen(first + own), scale, log_sums[half], products[half],
            weights[i / 4][i % 4], slopes[i / 4][i % 4]);
    }
    add_product<T, kKeys, W>(thread, slopes, keys, sums);
  }
  const float factor = static_cast<float>(job.scale);
  store_sums<T, W>(thread, dq, dq.at(batch, head, first + thread.first), count - thread.first,
                   job.width, sums, {factor, factor}, own_queries);
}

}  // namespace

template <class T>
void attention_backward_mma(const AttentionGradients& tensors, const AttentionJob& job) {
  constexpr const char* op = "attention_backward";
  const BackwardInputs<T> inputs(tensors);
  const cudaStream_t stream = tenon::cuda::stream_of(tensors.q);
  with_width<32, 64, 96, kMaxMmaWidth>(job.width, [&]<int W>() {
    constexpr size_t kBytes = (2 * kMmaTile + 4 * kWalked<W>)*kTileStride<T, W> * sizeof(T);
    simt::launch(op, key_gradients_mma<T, W>, job.grid(job.groups, job.keys, kMmaTile), kMmaThreads,
                 kBytes, stream, inputs, HeadRows<T>(tensors.dk), HeadRows<T>(tensors.dv), job);
    simt::launch(op, query_gradients_mma<T, W>, job.grid(job.heads, job.queries, kMmaTile),
                 kMmaThreads, kBytes, stream, inputs, HeadRows<T>(tensors.dq), job);
  });
}
template void attention_backward_mma<BFloat16>(const AttentionGradients&, const AttentionJob&);
template void attention_backward_mma<Float16>(const AttentionGradients&, const AttentionJob&);

}  // namespace tenon::kernels::cuda
