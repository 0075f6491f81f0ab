// The reduction over ranks whose tensors lie on one device: each element of each source is read
// once, and the result is written to every destination.
#include "tenon/kernels/rank_reduce.h"

#include <algorithm>

#include "tenon/core/cuda/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/kernels/cuda/element.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 13;
constexpr size_t kMaxRanks = 128;  // two lists of pointers, within the 4 KB of kernel parameters

struct RankTable {
  const void* sources[kMaxRanks];
  void* destinations[kMaxRanks];
  int source_count;
  int destination_count;
  ReduceOp op;
  int divisor;
};

template <class C>
__device__ C combine(ReduceOp op, C a, C b) {
  if (op == ReduceOp::max) return a > b || a != a ? a : b;
  if (op == ReduceOp::min) return a < b || a != a ? a : b;
  return a + b;
}

// V elements from `begin` on.
template <class T, int V>
__device__ void reduce_elements(const RankTable& table, int64_t begin) {
  using C = Compute<T>;
  const auto source = [&](int rank) {
    return load_packed<V>(static_cast<const T*>(table.sources[rank]) + begin);
  };
  C sum[V];
  const Packed<T, V> first = source(0);
#pragma unroll
  for (int j = 0; j < V; ++j) sum[j] = static_cast<C>(first.value[j]);
#pragma unroll 4
  for (int rank = 1; rank < table.source_count; ++rank) {
    const Packed<T, V> next = source(rank);
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] = combine(table.op, sum[j], static_cast<C>(next.value[j]));
  }
  Packed<T, V> result;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (table.op == ReduceOp::mean) sum[j] = sum[j] / static_cast<C>(table.divisor);
    result.value[j] = static_cast<T>(sum[j]);
  }
  for (int k = 0; k < table.destination_count; ++k) {
    store_packed(static_cast<T*>(table.destinations[k]) + begin, result);
  }
}

// Groups of V elements, then the rest one by one.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) rank_reduce_kernel(RankTable table, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t groups = count / V;
  for (int64_t i = first; i < groups; i += step) reduce_elements<T, V>(table, i * V);
  if constexpr (V > 1) {
    for (int64_t i = groups * V + first; i < count; i += step) reduce_elements<T, 1>(table, i);
  }
}

bool all_aligned(const RankReduce& job) {
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  return std::all_of(job.sources.begin(), job.sources.end(), aligned) &&
         std::all_of(job.destinations.begin(), job.destinations.end(), aligned);
}

void rank_reduce_cuda(const RankReduce& job) {
  constexpr const char* op = "rank_reduce";
  TENON_CHECK(!job.sources.empty(), op, "no sources");
  if (job.count == 0 || job.destinations.empty()) return;
  TENON_CHECK(job.op != ReduceOp::mean || is_floating(job.dtype), op, "mean of integers: given ",
              job.dtype, ", wanted a floating dtype");
  TENON_CHECK(job.sources.size() <= kMaxRanks && job.destinations.size() <= kMaxRanks, op,
              "too many ranks on one device: given ", job.sources.size(), " sources and ",
              job.destinations.size(), " destinations, wanted at most ", kMaxRanks);
  RankTable table{};
  std::copy(job.sources.begin(), job.sources.end(), table.sources);
  std::copy(job.destinations.begin(), job.destinations.end(), table.destinations);
  table.source_count = static_cast<int>(job.sources.size());
  table.destination_count = static_cast<int>(job.destinations.size());
  table.op = job.op;
  table.divisor = job.divisor;
  Device device{DeviceType::cuda};
  tenon::cuda::check(cudaGetDevice(&device.index), op, "cudaGetDevice");
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  dispatch_types<float, double, Float16, BFloat16, int64_t>(job.dtype, op, [&]<class T>() {
    with_vector<T>(all_aligned(job), [&]<int V>() {
      const int64_t groups = (job.count + V - 1) / V;
      const int64_t blocks = std::min((groups + kThreads - 1) / kThreads, kMaxBlocks);
      simt::launch(op, rank_reduce_kernel<T, V>, dim3(static_cast<unsigned>(blocks)),
                   dim3(kThreads), 0, stream, table, job.count);
    });
  });
}

[[maybe_unused]] const bool registered = rank_reduce.set(DeviceType::cuda, rank_reduce_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
