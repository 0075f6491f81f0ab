// Sums over any axes. Elements are added in f64 (integers in i64), so that neither the layout nor
// the way of splitting shows in the result.
#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels::cuda {
namespace {

template <class T>
struct SumSource {
  static constexpr int kOperands = 1;
  static constexpr int kVector = kPacked<T>;
  using Value = Wide<T>;
  using Op = AddOp;
  __host__ __device__ static Value identity() { return 0; }

  template <bool rows, int V>
  __device__ void values(const Offsets<1>& place, int64_t, int64_t, Value (&values)[V]) const {
    const Packed<T, V> loaded = load_packed<V>(x + place.at[0]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      values[j] = static_cast<Value>(static_cast<Compute<T>>(loaded.value[j]));
    }
  }

  const T* x;
  Op op{};
};

struct SumFinish {
  template <class W>
  __device__ void operator()(int64_t kept, W sum) const {
    const int64_t at = walk.place(kept).at[0];
    if (scale != 1) sum = static_cast<W>(static_cast<double>(sum) * scale);
    const auto write = [&]<class T>() {
      T& element = static_cast<T*>(out)[at];
      if (accumulate) sum += static_cast<W>(static_cast<Compute<T>>(element));
      element = static_cast<T>(static_cast<Compute<T>>(sum));
    };
    if constexpr (std::is_same_v<W, double>) {
      with_floating(dtype, write);
    } else if (dtype == DType::i64) {
      write.template operator()<int64_t>();
    } else {
      write.template operator()<int32_t>();
    }
  }

  Walk<1> walk;
  void* out;
  DType dtype;
  double scale;
  bool accumulate;
};

void sum_cuda(const Tensor& x, Tensor& out, AxisMask axes, double scale, bool accumulate) {
  const LoopPlan kept = LoopPlan::over(~axes, {&x, &out});
  const LoopPlan reduced = LoopPlan::over(axes, {&x});
  const SumFinish finish{Walk<1>(kept, 1), out.raw_data(), out.dtype(), scale, accumulate};
  TENON_CHECK(is_floating(x.dtype()) == is_floating(out.dtype()), "sum", "cannot write sums of ",
              x.dtype(), " as ", out.dtype());
  dispatch_types<float, double, Float16, BFloat16, int64_t, int32_t>(
      x.dtype(), "sum", [&]<class T>() {
        reduce("sum", x.device(), kept, reduced, is_aligned(x), SumSource<T>{x.data<T>()}, finish);
      });
}

[[maybe_unused]] const bool registered = sum.set(DeviceType::cuda, sum_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
