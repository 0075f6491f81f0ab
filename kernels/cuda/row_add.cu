// Adding slices at a list of ids on the GPU, in the order of ids: index_add and embedding_backward.
// The places of the list are sorted by their ids with a stable sort by counting (each place counts
// the places before it; all pairs of 32768 ids cost less than 0.1 ms). The thread at the first
// place of an id then adds its group of elements of all slices with that id, one after another.
// Nothing depends on the order in which threads run.
#include <limits>

#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/row_index.h"
#include "tenon/kernels/embedding.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kAhead = 4;             // slices in flight for each thread
constexpr int kMissing = -1;          // the key of an id out of range, sorted to the front
constexpr int64_t kSortBlocks = 512;  // at most, unless there are more keys

// The list and what becomes of it; arrays of `count`.
struct SortedIds {
  int* keys;    // the ids
  int* ranks;   // the place of each in the sorted order
  int* places;  // sorted
  int* sorted;  // the ids, sorted
};

__global__ void __launch_bounds__(kMapBlock)
    keys_kernel(IdList ids, int64_t limit, SortedIds out, tenon::cuda::FaultSink fault) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i >= ids.count) return;
  const int64_t id = ids[i];
  const bool valid = id >= 0 && id < limit;
  if (!valid) fault.raise(id, i, limit);
  out.keys[i] = valid ? static_cast<int>(id) : kMissing;
  out.ranks[i] = 0;
}

// How many of the tile's keys, of which the first is `first` places from key's own, come before it.
__device__ int count_before(const int (&tile)[kMapBlock], int key, int64_t first) {
  // A key that is equal comes before if its place does.
  int before = 0;
  if (first + kMapBlock <= 0 || first > 0) {
    const int end = first > 0 ? key : key + 1;
#pragma unroll 16
    for (int j = 0; j < kMapBlock; ++j) before += tile[j] < end ? 1 : 0;
  } else {
#pragma unroll 16
    for (int j = 0; j < kMapBlock; ++j) before += tile[j] < (first + j < 0 ? key + 1 : key) ? 1 : 0;
  }
  return before;
}

__global__ void __launch_bounds__(kMapBlock) rank_kernel(int64_t count, SortedIds ids) {
  SIMT_SHARED(int, tile, [kMapBlock]);
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  const int key = i < count ? ids.keys[i] : 0;
  int before = 0;
  for (int64_t first = int64_t{blockIdx.y} * kMapBlock; first < count;
       first += int64_t{gridDim.y} * kMapBlock) {
    const int64_t j = first + threadIdx.x;
    tile[threadIdx.x] = j < count ? ids.keys[j] : std::numeric_limits<int>::max();
    __syncthreads();
    before += count_before(tile, key, first - i);
    __syncthreads();
  }
  if (i < count) atomicAdd(&ids.ranks[i], before);
}

__global__ void __launch_bounds__(kMapBlock) order_kernel(int64_t count, SortedIds ids) {
  const int64_t i = int64_t{blockIdx.x} * kMapBlock + threadIdx.x;
  if (i >= count) return;
  ids.places[ids.ranks[i]] = static_cast<int>(i);
  ids.sorted[ids.ranks[i]] = ids.keys[i];
}

template <class To, class From, int V>
__global__ void __launch_bounds__(kMapBlock)
    add_kernel(Slices slices, int64_t count, SortedIds ids, int64_t to_stride, int64_t from_stride,
               To* to, const From* from) {
  using C = Compute<To>;
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t unit = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; unit < slices.work();
       unit += step) {
    const auto share = slices.share(unit);
    const int64_t start = share.slice;
    const int id = ids.sorted[start];
    if (id == kMissing || (start > 0 && ids.sorted[start - 1] == id)) continue;
    const auto place = slices.groups().template place<V>(share.group);
    To* const target = to + id * to_stride;
    auto result = slices.groups().template load<V>(target, 0, place);
    C sum[V];
#pragma unroll
    for (int j = 0; j < V; ++j) sum[j] = to_compute(result.value[j]);
    bool more = true;
    for (int64_t at = start; more; at += kAhead) {
      Packed<From, V> addends[kAhead];
      bool same[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        same[u] = at + u < count && ids.sorted[at + u] == id;
        if (!same[u]) continue;
        const int64_t from_place = ids.places[at + u];
        addends[u] = slices.groups().template load<V>(from + from_place * from_stride, 1, place);
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (!same[u]) continue;
#pragma unroll
        for (int j = 0; j < V; ++j) sum[j] += static_cast<C>(to_compute(addends[u].value[j]));
      }
      more = same[kAhead - 1];
    }
#pragma unroll
    for (int j = 0; j < V; ++j) result.value[j] = static_cast<To>(sum[j]);
    slices.groups().template store<V>(target, 0, place, result);
  }
}

void sort_ids(const char* op, const IdList& list, int64_t limit, Device device,
              const SortedIds& ids) {
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  const auto fault = tenon::cuda::fault_sink(device, {op, "id", "at place"});
  const int64_t blocks = (list.count + kMapBlock - 1) / kMapBlock;
  const auto grid = static_cast<unsigned>(blocks);
  const auto splits = static_cast<unsigned>(
      std::clamp<int64_t>(kSortBlocks / blocks, 1, std::min<int64_t>(blocks, 64)));
  simt::launch(op, keys_kernel, grid, kMapBlock, 0, stream, list, limit, ids, fault);
  simt::launch(op, rank_kernel, dim3(grid, splits), kMapBlock, 0, stream, list.count, ids);
  simt::launch(op, order_kernel, grid, kMapBlock, 0, stream, list.count, ids);
}

template <class To, class From>
void launch_add(const char* op, const Tensor& from, const Tensor& to, int axis, int64_t count,
                const SortedIds& ids) {
  constexpr int kVector = kGroup<To, From>;
  const Slices slices(to, from, axis, kVector, count);
  simt::launch(op, add_kernel<To, From, kVector>, grid_for(to.device(), slices.work(), kMapBlock),
               kMapBlock, 0, tenon::cuda::stream_of(to), slices, count, ids, to.strides()[axis],
               from.strides()[axis], static_cast<To*>(to.raw_data()),
               static_cast<const From*>(from.raw_data()));
}

void add_slices(const char* op, const Tensor& from, const Tensor& ids, Tensor& to, int axis) {
  const IdList list(op, ids);
  if (from.numel() == 0) return;
  constexpr int64_t kMost = std::numeric_limits<int>::max() - 1;
  TENON_CHECK(list.count <= kMost && to.dim(axis) <= kMost, op, "too many ids or slices: given ",
              describe(ids), " for ", describe(to), ", wanted at most ", kMost, " of each");
  TENON_CHECK(from.dtype() == to.dtype() || to.dtype() == compute_dtype(from.dtype()), op,
              "wrong dtype: given ", describe(to), " to add ", describe(from),
              " to, wanted its dtype or its compute dtype");
  const auto n = static_cast<size_t>(list.count);
  const tenon::cuda::Scratch scratch(to.device(), 4 * n * sizeof(int));
  int* const memory = scratch.data<int>();
  const SortedIds sorted{memory, memory + n, memory + 2 * n, memory + 3 * n};
  sort_ids(op, list, to.dim(axis), to.device(), sorted);
  if (to.numel() == 0) return;  // no id is in range, and the sort has said so
  dispatch_floating(from.dtype(), op, [&]<class From>() {
    if (from.dtype() == to.dtype()) {
      launch_add<From, From>(op, from, to, axis, list.count, sorted);
    } else if constexpr (!std::is_same_v<From, Compute<From>>) {
      launch_add<Compute<From>, From>(op, from, to, axis, list.count, sorted);
    }
  });
}

void embedding_backward_cuda(const Tensor& dout, const Tensor& ids, Tensor& dweight,
                             bool accumulate) {
  if (!accumulate) fill(DeviceType::cuda, dweight, 0);
  add_slices("embedding_backward", dout, ids, dweight, 0);
}

void index_add_cuda(const Tensor& dout, const Tensor& ids, Tensor& dx, int axis) {
  add_slices("index_add", dout, ids, dx, axis);
}

[[maybe_unused]] const bool registered =
    embedding_backward.set(DeviceType::cuda, embedding_backward_cuda) &&
    index_add.set(DeviceType::cuda, index_add_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
