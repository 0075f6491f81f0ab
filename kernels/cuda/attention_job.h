// What attention's kernels share: sizes, which keys a query sees, operands as heads of rows, and
// tiles of them in shared memory. A tile is padded with zeros to whole blocks; between its rows lie
// 16 bytes more, so that neighbouring rows begin in different banks.
#pragma once

#include "tenon/core/cuda/context.h"
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/attention.h"
#include "tenon/kernels/cuda/async_copy.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/reduce_block.h"

namespace tenon::kernels::cuda {

inline constexpr int kMaxHeadWidth = 256;

// Elements of 16 bytes.
template <class T>
inline constexpr int kLanes = static_cast<int>(16 / sizeof(T));

template <class T, int kColumns>
inline constexpr int kTileStride = kColumns + kLanes<T>;

// The tile of rows of a head that a block works on.
struct BlockPlace {
  int64_t batch;
  int64_t head;
  int tile;
};

struct AttentionJob {
  AttentionJob(const char* op, const Tensor& q, const Tensor& k, const AttentionParams& params)
      : batches(q.dim(0)),
        heads(q.dim(1)),
        groups(k.dim(1)),
        queries(static_cast<int>(q.dim(2))),
        keys(static_cast<int>(k.dim(2))),
        width(static_cast<int>(q.dim(3))),
        causal(params.causal),
        scale(params.scale) {
    TENON_CHECK(q.dim(3) <= kMaxHeadWidth, op, "unsupported width of a head: given ", q.dim(3),
                ", wanted at most ", kMaxHeadWidth);
  }

  // Keys that the query sees.
  __device__ int seen(int query) const {
    return causal ? ::min(keys, query + keys - queries + 1) : keys;
  }
  // The first query that sees the key.
  __device__ int first_query(int key) const {
    return causal ? ::max(0, key - (keys - queries)) : 0;
  }
  __device__ int64_t group_of(int64_t head) const { return head / (heads / groups); }
  __device__ int64_t row(int64_t batch, int64_t head, int query) const {
    return (batch * heads + head) * queries + query;
  }

  // All heads have their blocks of one tile, then of the next.
  dim3 grid(int64_t in_batch, int64_t rows, int tile) const {
    return dim3(static_cast<unsigned>(batches * in_batch * ((rows + tile - 1) / tile)));
  }
  __device__ BlockPlace place(int64_t in_batch) const {
    const auto all = static_cast<unsigned>(batches * in_batch);
    const unsigned tile = blockIdx.x / all, rest = blockIdx.x - tile * all;
    const unsigned batch = rest / static_cast<unsigned>(in_batch);
    return {batch, rest - batch * in_batch, static_cast<int>(tile)};
  }
  // Late queries see the most keys, so they begin.
  __device__ BlockPlace last_first(int64_t in_batch, int tile_rows) const {
    BlockPlace result = place(in_batch);
    result.tile = (queries + tile_rows - 1) / tile_rows - 1 - result.tile;
    return result;
  }

  int64_t batches, heads, groups;
  int queries, keys, width;
  bool causal;
  double scale;
};

// A tensor (B, H, T, D), D dense.
template <class T>
struct HeadRows {
  explicit HeadRows(const Tensor& tensor)
      : data(static_cast<T*>(tensor.raw_data())),
        batch(tensor.strides()[0]),
        head(tensor.strides()[1]),
        row(tensor.strides()[2]),
        packed(is_aligned(tensor) && tensor.dim(3) % kLanes<T> == 0 && batch % kLanes<T> == 0 &&
               head % kLanes<T> == 0 && row % kLanes<T> == 0) {}

  __device__ T* at(int64_t b, int64_t h, int64_t t) const {
    return data + b * batch + h * head + t * row;
  }
  // The elements of 16 bytes from `column` on, zeros beyond `width`.
  __device__ Packed<std::remove_const_t<T>, kLanes<T>> load(const T* from, int column,
                                                            int width) const {
    if (packed && column < width) return load_packed<kLanes<T>>(from + column);
    Packed<std::remove_const_t<T>, kLanes<T>> values{};
#pragma unroll
    for (int j = 0; j < kLanes<T>; ++j) {
      if (column + j < width) values.value[j] = from[column + j];
    }
    return values;
  }
  // V elements to the row at `to`, those beyond `width` left out.
  template <int V>
  __device__ void store(T* to, int column, int width, const Packed<T, V>& values) const {
    if (packed && column < width) return store_packed(to + column, values);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (column + j < width) to[column + j] = values.value[j];
    }
  }

  T* data;
  int64_t batch, head, row;
  bool packed;  // groups of 16 bytes are groups of memory
};

// `from` is row 0 of a tile with kRows rows, of which the first `count` exist. By all threads.
template <int kThreads, int kRows, int kColumns, class T, class C>
__device__ void load_tile(const HeadRows<const T>& operand, const T* from, int count, int width,
                          C* tile) {
  constexpr int V = kLanes<T>, kGroups = kColumns / V;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kGroups; i += kThreads) {
    const int row = i / kGroups, column = i % kGroups * V;
    Packed<T, V> values{};
    if (row < count) values = operand.load(from + row * operand.row, column, width);
    C* const to = tile + row * kTileStride<C, kColumns> + column;
    if constexpr (std::is_same_v<T, C>) {
      store_packed(to, values);
    } else {
      constexpr int N = kLanes<C>;
#pragma unroll
      for (int at = 0; at < V; at += N) {
        Packed<C, N> converted;
        for (int j = 0; j < N; ++j) converted.value[j] = static_cast<C>(values.value[at + j]);
        store_packed(to + at, converted);
      }
    }
  }
}

// The same while the threads go on, where memory is packed: wait_copies and a barrier end it.
template <int kThreads, int kRows, int kColumns, class T>
__device__ void start_tile(const HeadRows<const T>& operand, const T* from, int count, int width,
                           T* tile) {
  if (!operand.packed) {
    load_tile<kThreads, kRows, kColumns>(operand, from, count, width, tile);
    return;
  }
  constexpr int V = kLanes<T>, kGroups = kColumns / V;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kGroups; i += kThreads) {
    const int row = i / kGroups, column = i % kGroups * V;
    const bool exists = row < count && column < width;
    simt::copy_async(tile + row * kTileStride<T, kColumns> + column,
                     exists ? from + row * operand.row + column : from, exists);
  }
}

template <class C>
__device__ C minus_infinity() {
  return -std::numeric_limits<C>::infinity();
}
// What is subtracted before exp: the maximum, or 0 where that is -infinity (exp then gives 0).
template <class C>
__device__ C shift_of(C peak) {
  return peak == minus_infinity<C>() ? C(0) : peak;
}

// body<W>() with the first of kWidths that is at least `width`.
template <int... kWidths, class Body>
void with_width(int width, const Body& body) {
  bool found = false;
  const auto attempt = [&]<int W>() {
    if (found || width > W) return;
    found = true;
    body.template operator()<W>();
  };
  (attempt.template operator()<kWidths>(), ...);
}

// What backward needs and makes; `products`: out . dout of each query.
struct AttentionGradients {
  const Tensor &q, &k, &v, &log_sum_exp, &dout;
  const void* products;
  Tensor &dq, &dk, &dv;
};
template <class T>
struct BackwardInputs {
  explicit BackwardInputs(const AttentionGradients& tensors)
      : q(tensors.q),
        k(tensors.k),
        v(tensors.v),
        dout(tensors.dout),
        log_sum_exp(tensors.log_sum_exp.data<Compute<T>>()),
        products(static_cast<const Compute<T>*>(tensors.products)) {}

  HeadRows<const T> q, k, v, dout;
  const Compute<T>* log_sum_exp;
  const Compute<T>* products;
};

}  // namespace tenon::kernels::cuda
