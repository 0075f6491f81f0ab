// max and min with the first index, and the scatter of their gradients. Values are compared in f64
// or i64, which is exact for every dtype.
#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels::cuda {
namespace {

template <class W>
struct Extreme {
  W value;
  int64_t index;  // negative: none yet
};

// A NaN beats every number; among equal values the lower index wins.
struct ExtremeOp {
  template <class W>
  __device__ Extreme<W> operator()(Extreme<W> a, Extreme<W> b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool wins = largest ? b.value > a.value : b.value < a.value;
    const bool equal = b.value == a.value || (a_nan && b_nan);
    const bool better = wins || (b_nan && !a_nan) || (equal && b.index < a.index);
    return a.index < 0 || (b.index >= 0 && better) ? b : a;
  }

  bool largest;
};

template <class T>
struct ExtremeSource {
  static constexpr int kOperands = 1;
  static constexpr int kVector = 1;  // seldom worth twice the kernels
  using Value = Extreme<Wide<T>>;
  using Op = ExtremeOp;
  __host__ __device__ static Value identity() { return {0, -1}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<1>& place, int64_t, int64_t reduced,
                         Value (&values)[V]) const {
    values[0] = {static_cast<Wide<T>>(static_cast<Compute<T>>(x[place.at[0]])), reduced};
  }

  const T* x;
  Op op;
};

template <class T>
struct ExtremeFinish {
  __device__ void operator()(int64_t kept, const Extreme<Wide<T>>& result) const {
    const Offsets<2> place = walk.place(kept);
    values[place.at[0]] = static_cast<T>(static_cast<Compute<T>>(result.value));
    indices[place.at[1]] = result.index;
  }

  Walk<2> walk;
  T* values;
  int64_t* indices;
};

template <bool largest>
void extreme_cuda(const Tensor& x, Tensor& values, Tensor& indices, int axis) {
  constexpr const char* op = largest ? "max" : "min";
  if (values.numel() == 0) return;
  TENON_CHECK(x.dim(axis) > 0, op, "nothing to choose from: given shape ", x.shape(), ", axis ",
              axis);
  const LoopPlan kept = LoopPlan::over(~(1u << axis), {&x, &values, &indices});
  const LoopPlan reduced = LoopPlan::over(1u << axis, {&x});
  dispatch_numeric(x.dtype(), op, [&]<class T>() {
    const ExtremeFinish<T> finish{Walk<2>(kept, 1), values.data<T>(), indices.data<int64_t>()};
    reduce(op, x.device(), kept, reduced, is_aligned(x), ExtremeSource<T>{x.data<T>(), {largest}},
           finish);
  });
}

template <class T>
__global__ void __launch_bounds__(kRowBlock)
    scatter_kernel(const T* dy, const int64_t* indices, T* dx, Walk<3> lines, int64_t stride,
                   int64_t length, tenon::cuda::FaultSink fault) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < lines.count;
       i += step) {
    const Offsets<3> place = lines.place(i);
    const int64_t index = indices[place.at[1]];
    if (index < 0 || index >= length) {
      fault.raise(index, i, length);
      continue;
    }
    T& element = dx[place.at[2] + index * stride];
    element =
        static_cast<T>(static_cast<Compute<T>>(element) + static_cast<Compute<T>>(dy[place.at[0]]));
  }
}

void scatter_add_cuda(const Tensor& dy, const Tensor& indices, Tensor& dx, int axis) {
  if (dy.numel() == 0) return;
  const LoopPlan lines = LoopPlan::over(~(1u << axis), {&dy, &indices, &dx});
  const auto fault = tenon::cuda::fault_sink(dx.device(), {"scatter_add", "index", "in line"});
  const auto blocks =
      static_cast<unsigned>(std::min(divide_up(lines.count, kRowBlock), kMaxRowBlocks));
  dispatch_floating(dx.dtype(), "scatter_add", [&]<class T>() {
    simt::launch("scatter_add", scatter_kernel<T>, dim3(blocks), dim3(kRowBlock), 0,
                 tenon::cuda::stream_of(dx), dy.data<T>(), indices.data<int64_t>(), dx.data<T>(),
                 Walk<3>(lines), dx.strides()[axis], dx.dim(axis), fault);
  });
}

[[maybe_unused]] const bool registered = max.set(DeviceType::cuda, extreme_cuda<true>) &&
                                         min.set(DeviceType::cuda, extreme_cuda<false>) &&
                                         scatter_add.set(DeviceType::cuda, scatter_add_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
