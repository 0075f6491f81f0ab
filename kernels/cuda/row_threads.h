// Kernels that work on whole rows: a group of threads per row, which may keep the row in shared
// memory between its passes. A group is 1 to 32 lanes of a warp, or the block for long rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/reduce_block.h"

namespace tenon::kernels::cuda {

inline constexpr int kRowBlock = 256;                // threads
inline constexpr int64_t kRowCacheBytes = 32 << 10;  // of shared memory, of a block
inline constexpr int64_t kMaxRowBlocks = 1 << 20;

// How a kernel's threads share the rows.
struct RowGrid {
  // `cached`: bytes of shared memory that an element of a row takes.
  RowGrid(int64_t rows, int64_t length, int vector, int64_t cached) {
    const int64_t vectors = std::max<int64_t>((length + vector - 1) / vector, 1);
    while (group < vectors && group < kWarp) group *= 2;
    const auto slots_in = [&](int64_t threads) {
      return (vectors + threads - 1) / threads * vector;
    };
    const int64_t most = cached == 0 ? 32 : kRowCacheBytes / (kRowBlock * cached);
    if (slots_in(group) > std::min<int64_t>(most, 32)) group = kRowBlock;
    slots = slots_in(group) <= most ? static_cast<int>(slots_in(group)) : 0;
    const int64_t rows_in_block = kRowBlock / group;
    blocks =
        static_cast<unsigned>(std::min((rows + rows_in_block - 1) / rows_in_block, kMaxRowBlocks));
    shared_bytes = static_cast<size_t>(slots * kRowBlock * cached);
  }

  int group = 1;  // threads per row
  int slots = 0;  // elements that a thread keeps; 0: rows are read again
  unsigned blocks = 0;
  size_t shared_bytes = 0;
};

// The calling thread's place in its group; all threads of a warp take the same number of rows.
struct RowThread {
  __device__ explicit RowThread(int group_size)
      : group(group_size),
        rank(static_cast<int>(threadIdx.x) % group_size),
        step(static_cast<int64_t>(gridDim.x) * (blockDim.x / static_cast<unsigned>(group_size))),
        first(static_cast<int64_t>(blockIdx.x) * (blockDim.x / static_cast<unsigned>(group_size)) +
              threadIdx.x / static_cast<unsigned>(group_size)) {}

  // body(row, exists) for the rows of the group; where !exists it only helps the other groups of
  // its warp, so that all lanes come to every shuffle.
  template <class Body>
  __device__ void for_each_row(int64_t rows, const Body& body) const {
    const int64_t ahead = group >= kWarp ? 0 : threadIdx.x % kWarp / static_cast<unsigned>(group);
    for (int64_t row = first; row - ahead < rows; row += step) body(row, row < rows);
  }
  template <class T, class Op>
  __device__ T reduce(T value, Op op, T identity) const {
    return group > kWarp ? block_reduce(value, op, identity) : warp_reduce(value, op, group);
  }

  int group;
  int rank;
  int64_t step;
  int64_t first;
};

struct KeepValues {
  template <class Values>
  __device__ void operator()(int64_t, Values&) const {}
};

// N operands' rows of T, of which the calling thread has its share of the elements in groups of V.
// load() comes first; with slots it keeps the values in shared memory, where later passes find
// them. `prepare` changes values when they are read. Bodies take (i, values) of the elements from i
// on.
template <class T, int V, int N, class Prepare = KeepValues>
class Rows {
 public:
  using C = Compute<T>;
  struct Values {
    C x[N][V];
  };

  // `slots` is the thread's first, or null: later passes then read the rows again.
  __device__ Rows(const RowThread& thread, int64_t length, C* slots, Prepare prepare = {})
      : thread_(thread), length_(length), slots_(slots), prepare_(prepare) {}
  // The stride is 1 where V > 1.
  __device__ void set(int operand, const T* row, int64_t stride) {
    data_[operand] = row;
    strides_[operand] = stride;
  }
  __device__ bool cached() const { return slots_ != nullptr; }

  template <class Body>
  __device__ void load(const Body& body) const {
    each<Pass::load>(body);
  }
  // body may change the values: later passes find them so if cached().
  template <class Body>
  __device__ void again(const Body& body) const {
    each<Pass::again>(body);
  }
  // What body leaves in values.x[0] becomes the row of `out`.
  template <class Body>
  __device__ void write(T* out, int64_t stride, const Body& body) const {
    each<Pass::last>([&](int64_t i, Values& values) {
      body(i, values);
      Packed<T, V> result;
#pragma unroll
      for (int j = 0; j < V; ++j) result.value[j] = static_cast<T>(values.x[0][j]);
      store_packed(out + i * stride, result);
    });
  }

 private:
  enum class Pass { load, again, last };

  template <Pass pass, class Body>
  __device__ void each(const Body& body) const {
    C* slot = slots_;
    const bool read = pass == Pass::load || !cached();
#pragma unroll 2
    for (int64_t i = thread_.rank * V; i < length_; i += thread_.group * V) {
      Values values;
      if (read) {
        read_values(i, values);
      } else {
#pragma unroll
        for (int j = 0; j < V * N; ++j) values.x[j / V][j % V] = slot[j * kRowBlock];
      }
      if (pass == Pass::again) body(i, values);
      if (pass != Pass::last && cached()) {
#pragma unroll
        for (int j = 0; j < V * N; ++j) slot[j * kRowBlock] = values.x[j / V][j % V];
      }
      if (pass != Pass::again) body(i, values);
      slot += V * N * kRowBlock;
    }
  }
  __device__ void read_values(int64_t i, Values& values) const {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const auto loaded = load_packed<V>(data_[k] + i * strides_[k]);
#pragma unroll
      for (int j = 0; j < V; ++j) values.x[k][j] = static_cast<C>(loaded.value[j]);
    }
    prepare_(i, values);
  }

  const RowThread& thread_;
  int64_t length_;
  C* slots_;
  Prepare prepare_;
  const T* data_[N];
  int64_t strides_[N];
};

}  // namespace tenon::kernels::cuda
