// Reductions over some axes of N operands that are walked together. A Source makes a value of each
// element, an operator joins them, and a Finish writes the result. As on the CPU the axes that stay
// (kept) and those that go (reduced) have a walk each; where reduced elements lie closest in memory
// a group of threads takes a row of them, elsewhere neighbouring threads take neighbouring kept
// elements. Long reductions are split, by their shape alone, and joined by a second kernel.
//
// Source: kOperands, kVector, Value, Op and a member `op`, identity() and
//   values<rows, V>(offsets, kept, reduced, Value (&)[V]): of V neighbours along the reduced (rows)
//   or the kept elements, numbers `kept` and `reduced` being the first one's.
// Finish: operator()(kept, value).
#pragma once

#include <algorithm>
#include <type_traits>

#include "tenon/core/cuda/context.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/row_threads.h"
#include "tenon/kernels/cuda/walk.h"

namespace tenon::kernels::cuda {

inline constexpr int64_t kSplitBlocks = 1024;  // enough to fill a device
inline constexpr int64_t kSplitShare = 16;     // elements per thread, at least

// Integers add in i64, everything else in f64.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int power_of_two_from(int64_t value, int most) {
  int result = 1;
  while (result < value && result < most) result *= 2;
  return result;
}

struct NoFinish {
  template <class Value>
  __device__ void operator()(int64_t, const Value&) const {}
};
template <int N>
struct Reduction {
  Walk<N> kept;
  Walk<N> reduced;
  bool by_rows = false;
  int group = 1;           // threads of a row
  int64_t block_size = 0;  // reduced elements of a split
  int64_t splits = 1;
  dim3 grid{1, 1, 1};
  dim3 block{1, 1, 1};

  Reduction(const LoopPlan& kept_plan, const LoopPlan& reduced_plan)
      : kept(kept_plan), reduced(reduced_plan) {
    by_rows = kept.count == 1 || reduced_plan.inner_stride(0) <= kept_plan.inner_stride(0);
  }
  bool packs(int64_t vector) const {
    const Walk<N>& walked = by_rows ? reduced : kept;
    const Walk<N>& other = by_rows ? kept : reduced;
    for (int k = 0; k < N; ++k) {
      if (!other.starts_groups(vector, k, other.dims)) return false;
    }
    return walked.packs(vector);
  }
  void split(int64_t blocks, int64_t smallest, int64_t multiple) {
    const int64_t wanted =
        std::min(divide_up(kSplitBlocks, blocks), divide_up(reduced.count, smallest));
    block_size =
        divide_up(divide_up(reduced.count, std::max<int64_t>(wanted, 1)), multiple) * multiple;
    splits = std::max<int64_t>(divide_up(reduced.count, std::max<int64_t>(block_size, 1)), 1);
  }
  void lay_out(int vector) {
    if (by_rows) {
      split(kept.count, kSplitShare * kRowBlock, vector);
      const RowGrid rows(kept.count * splits, block_size, vector, 0);
      group = rows.group;
      grid = dim3(rows.blocks);
      block = dim3(kRowBlock);
      return;
    }
    const int64_t columns = kept.count / vector;
    const int width = power_of_two_from(columns, kWarp);
    const int height = power_of_two_from(reduced.count, kMaxColumnThreads / width);
    block = dim3(static_cast<unsigned>(power_of_two_from(columns, kMaxColumnThreads / height)),
                 static_cast<unsigned>(height));
    const int64_t tiles = divide_up(columns, block.x);
    split(tiles, kSplitShare * height, 1);
    grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(splits));
  }
};

template <class Source, class Finish, int V>
__global__ void __launch_bounds__(kRowBlock, 4)
    reduce_rows(Source source, Finish finish, Reduction<Source::kOperands> job,
                typename Source::Value* partials) {
  constexpr int N = Source::kOperands;
  using Value = typename Source::Value;
  const typename Source::Op op = source.op;
  const RowThread thread(job.group);
  thread.for_each_row(job.kept.count * job.splits, [&](int64_t task, bool exists) {
    const int64_t split = job.splits == 1 ? 0 : task / job.kept.count;
    const int64_t kept = task - split * job.kept.count;
    Value total = Source::identity();
    if (exists) {
      const Offsets<N> base = job.kept.place(kept);
      const int64_t begin = split * job.block_size;
      const int64_t end = ::min(begin + job.block_size, job.reduced.count);
#pragma unroll 4
      for (int64_t i = begin + thread.rank * V; i < end; i += thread.group * V) {
        Offsets<N> place = job.reduced.place(i);
        for (int k = 0; k < N; ++k) place.at[k] += base.at[k];
        Value values[V];
        source.template values<true, V>(place, kept, i, values);
#pragma unroll
        for (int j = 0; j < V; ++j) total = op(total, values[j]);
      }
    }
    total = thread.reduce(total, op, Source::identity());
    if (!exists || thread.rank != 0) return;
    if (partials == nullptr) {
      finish(kept, total);
    } else {
      partials[task] = total;
    }
  });
}

template <class Source, class Finish, int V>
__global__ void __launch_bounds__(kMaxColumnThreads)
    reduce_columns(Source source, Finish finish, Reduction<Source::kOperands> job,
                   typename Source::Value* partials) {
  constexpr int N = Source::kOperands;
  using Value = typename Source::Value;
  const typename Source::Op op = source.op;
  const int64_t kept = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  const bool exists = kept < job.kept.count;
  Value totals[V];
  for (int j = 0; j < V; ++j) totals[j] = Source::identity();
  if (exists) {
    const Offsets<N> base = job.kept.place(kept);
    const int64_t begin = blockIdx.y * job.block_size;
    const int64_t end = ::min(begin + job.block_size, job.reduced.count);
#pragma unroll 4
    for (int64_t i = begin + threadIdx.y; i < end; i += blockDim.y) {
      Offsets<N> place = job.reduced.place(i);
      for (int k = 0; k < N; ++k) place.at[k] += base.at[k];
      Value values[V];
      source.template values<false, V>(place, kept, i, values);
#pragma unroll
      for (int j = 0; j < V; ++j) totals[j] = op(totals[j], values[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const Value total = column_reduce(totals[j], op);
    if (!exists || threadIdx.y != 0) continue;
    if (partials == nullptr) {
      finish(kept + j, total);
    } else {
      partials[blockIdx.y * job.kept.count + kept + j] = total;
    }
  }
}

// The partial results of all splits of a kept element.
template <class Value, class Op, class Finish>
__global__ void __launch_bounds__(kMaxColumnThreads)
    join_splits(const Value* partials, int64_t count, int64_t splits, Value identity, Op op,
                Finish finish) {
  const int64_t kept = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Value total = identity;
  if (kept < count) {
#pragma unroll 4
    for (int64_t split = threadIdx.y; split < splits; split += blockDim.y) {
      total = op(total, partials[split * count + kept]);
    }
  }
  total = column_reduce(total, op);
  if (kept < count && threadIdx.y == 0) finish(kept, total);
}

// `aligned`: the data of all operands begins at a multiple of 16 bytes. With `apart` a large Finish
// is compiled into the second kernel alone, which then always runs.
template <bool apart = false, class Source, class Finish>
void reduce(const char* op, Device device, const LoopPlan& kept, const LoopPlan& reduced,
            bool aligned, const Source& source, const Finish& finish) {
  using Value = typename Source::Value;
  if (kept.count == 0) return;
  Reduction<Source::kOperands> job(kept, reduced);
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  const auto run = [&]<int V>() {
    job.lay_out(V);
    const bool joins = apart || job.splits > 1;
    const int64_t partials = joins ? job.splits * kept.count : 0;
    const tenon::cuda::Scratch scratch(device, static_cast<size_t>(partials) * sizeof(Value));
    Value* const data = joins ? scratch.template data<Value>() : nullptr;
    const auto start = [&]<class Last>(const Last& last) {
      const auto kernel =
          job.by_rows ? reduce_rows<Source, Last, V> : reduce_columns<Source, Last, V>;
      simt::launch(op, kernel, job.grid, job.block, 0, stream, source, last, job, data);
    };
    if constexpr (apart) {
      start(NoFinish());
    } else {
      start(finish);
    }
    if (!joins) return;
    const int width = power_of_two_from(kept.count, kWarp);
    const int height = power_of_two_from(job.splits, kMaxColumnThreads / width);
    simt::launch(op, join_splits<Value, typename Source::Op, Finish>,
                 dim3(static_cast<unsigned>(divide_up(kept.count, width))),
                 dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)), 0, stream, data,
                 kept.count, job.splits, Source::identity(), source.op, finish);
  };
  if constexpr (Source::kVector > 1) {
    if (aligned && job.packs(Source::kVector)) {
      return run.template operator()<Source::kVector>();
    }
  }
  run.template operator()<1>();
}

}  // namespace tenon::kernels::cuda
