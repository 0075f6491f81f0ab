// Sums of powers over a list of tensors, for gradient norms: one launch for many tensors, whose
// blocks add up equal shares of them, and one that joins the blocks' sums.
#include <cmath>

#include "tenon/core/cuda/context.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/reduce_block.h"
#include "tenon/kernels/cuda/walk.h"
#include "tenon/kernels/reduce.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kShare = 16 << 10;  // elements per block
constexpr int kTableSize = 64;        // tensors per launch, within the 4 KB of kernel parameters

enum class Power { one, two, any, infinity };

struct JoinPowers {
  __device__ double operator()(double a, double b) const {
    if (power != Power::infinity) return a + b;
    return a > b || a != a ? a : b;
  }
  Power power;
};

struct PowerTerm {
  template <class C>
  __device__ double operator()(C x) const {
    const C size = x < C(0) ? -x : x;
    if (power == Power::two) return static_cast<double>(size) * static_cast<double>(size);
    if (power == Power::any) {
      return static_cast<double>(math::exp(static_cast<C>(exponent) * math::log(size)));
    }
    return static_cast<double>(size);
  }
  Power power;
  double exponent;
};

// Dense tensors, each a run of elements whatever its layout.
struct TensorTable {
  struct Entry {
    const void* data;
    int64_t count;
    int64_t first_block;  // of this launch
    DType dtype;
    bool aligned;
  };
  Entry entries[kTableSize];
  int size = 0;
  int64_t blocks = 0;

  __device__ const Entry& entry_of(int64_t block) const {
    int low = 0, high = size;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (entries[middle].first_block <= block ? low : high) = middle;
    }
    return entries[low];
  }
};

template <class T>
__device__ double sum_run(const T* x, int64_t n, bool aligned, PowerTerm term, JoinPowers join) {
  constexpr int V = kPacked<T>;
  double sum = 0;
  const int64_t whole = aligned ? n / V : 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < whole; i += kThreads) {
    const Packed<T, V> loaded = load_packed<V>(x + i * V);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      sum = join(sum, term(static_cast<Compute<T>>(loaded.value[j])));
    }
  }
  for (int64_t i = whole * V + threadIdx.x; i < n; i += kThreads) {
    sum = join(sum, term(static_cast<Compute<T>>(x[i])));
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    power_sum_dense(TensorTable table, PowerTerm term, JoinPowers join, double* sums) {
  const TensorTable::Entry& entry = table.entry_of(blockIdx.x);
  const int64_t begin = (blockIdx.x - entry.first_block) * kShare;
  const int64_t n = ::min(kShare, entry.count - begin);
  double sum = 0;
  with_floating(entry.dtype, [&]<class T>() {
    sum = sum_run(static_cast<const T*>(entry.data) + begin, n, entry.aligned, term, join);
  });
  sum = block_reduce(sum, join, 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    power_sum_strided(const void* data, DType dtype, Walk<1> walk, PowerTerm term, JoinPowers join,
                      double* sums) {
  const int64_t begin = blockIdx.x * kShare;
  const int64_t end = ::min(begin + kShare, walk.count);
  double sum = 0;
  with_floating(dtype, [&]<class T>() {
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      const T x = static_cast<const T*>(data)[walk.place(i).at[0]];
      sum = join(sum, term(static_cast<Compute<T>>(x)));
    }
  });
  sum = block_reduce(sum, join, 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    join_power_sums(const double* sums, int64_t count, JoinPowers join, double* out) {
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum = join(sum, sums[i]);
  sum = block_reduce(sum, join, 0.0);
  if (threadIdx.x == 0) *out = sum;
}

// Enqueues the kernels over the tensors; each block leaves its sum in the next place of `sums`.
class PowerSums {
 public:
  PowerSums(cudaStream_t stream, PowerTerm term, double* sums)
      : stream_(stream), term_(term), join_{term.power}, sums_(sums) {}

  static int64_t blocks_of(const Tensor& tensor) { return (tensor.numel() + kShare - 1) / kShare; }

  void add(const Tensor& tensor) {
    const int64_t blocks = blocks_of(tensor);
    if (blocks == 0) return;
    if (!tensor.is_dense()) {
      launch(power_sum_strided, blocks, tensor.raw_data(), tensor.dtype(),
             Walk<1>(LoopPlan::of({&tensor})));
      return;
    }
    if (table_.size == kTableSize || table_.blocks + blocks > INT32_MAX) flush();
    table_.entries[table_.size++] = {tensor.raw_data(), tensor.numel(), table_.blocks,
                                     tensor.dtype(), is_aligned(tensor)};
    table_.blocks += blocks;
  }
  void finish(double* out, double* first) {
    flush();
    simt::launch("power_sum", join_power_sums, dim3(1), dim3(kThreads), 0, stream_, first,
                 static_cast<int64_t>(sums_ - first), join_, out);
  }

 private:
  void flush() {
    if (table_.size > 0) launch(power_sum_dense, table_.blocks, table_);
    table_.size = 0;
    table_.blocks = 0;
  }
  template <class Kernel, class... Arguments>
  void launch(Kernel* kernel, int64_t blocks, const Arguments&... arguments) {
    simt::launch("power_sum", kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
                 stream_, arguments..., term_, join_, sums_);
    sums_ += blocks;
  }

  const cudaStream_t stream_;
  const PowerTerm term_;
  const JoinPowers join_;
  double* sums_;
  TensorTable table_{};
};

Power power_of(double p) {
  if (std::isinf(p)) return Power::infinity;
  if (p == 2) return Power::two;
  return p == 1 ? Power::one : Power::any;
}

void power_sum_cuda(const std::vector<Tensor>& tensors, double p, Tensor& out) {
  TENON_CHECK(p > 0, "power_sum", "the power must be positive: given ", p);
  int64_t blocks = 0;
  for (const Tensor& tensor : tensors) {
    TENON_CHECK(is_floating(tensor.dtype()), "power_sum", "unsupported dtype: given ",
                describe(tensor), ", wanted a floating dtype");
    blocks += PowerSums::blocks_of(tensor);
  }
  const tenon::cuda::Scratch scratch(out.device(), static_cast<size_t>(blocks) * sizeof(double));
  PowerSums sums(tenon::cuda::stream_of(out), {power_of(p), p}, scratch.data<double>());
  for (const Tensor& tensor : tensors) sums.add(tensor);
  sums.finish(out.data<double>(), scratch.data<double>());
}

[[maybe_unused]] const bool registered = power_sum.set(DeviceType::cuda, power_sum_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
