// Layer norm over contiguous rows. A group of threads keeps its row in shared memory, so mean,
// variance and result are separate passes over it and the row is read once. The gradients of gamma
// and beta are sums over columns.
#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

struct RowJob {
  int64_t rows;
  int64_t width;
  int group = 1;  // threads of a row
  int slots = 0;
};

template <class T, int V>
__global__ void __launch_bounds__(kRowBlock)
    layer_norm_rows(const T* x, AnyList gamma, AnyList beta, T* y, Compute<T>* mean,
                    Compute<T>* rstd, double eps, RowJob job) {
  using C = Compute<T>;
  using Values = typename Rows<T, V, 1>::Values;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  const auto width = static_cast<double>(job.width);
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    Rows<T, V, 1> rows(thread, exists ? job.width : 0,
                       job.slots == 0 ? nullptr : cache + threadIdx.x);
    rows.set(0, x + row * job.width, 1);
    double total = 0;
    rows.load([&](int64_t, const Values& values) {
      C part = 0;
      for (int j = 0; j < V; ++j) part += values.x[0][j];
      total += static_cast<double>(part);
    });
    const C center = static_cast<C>(thread.reduce(total, AddOp(), 0.0) / width);
    double squares = 0;
    rows.again([&](int64_t, const Values& values) {
      C part = 0;
      for (int j = 0; j < V; ++j) {
        const C deviation = values.x[0][j] - center;
        part += deviation * deviation;
      }
      squares += static_cast<double>(part);
    });
    squares = thread.reduce(squares, AddOp(), 0.0);
    const C factor = static_cast<C>(1 / math::sqrt(squares / width + eps));
    rows.write(y + row * job.width, 1, [&](int64_t i, Values& values) {
      C scale[V], offset[V];
      gamma.load<V>(i, scale, C(1));
      beta.load<V>(i, offset, C(0));
      for (int j = 0; j < V; ++j) {
        values.x[0][j] = (values.x[0][j] - center) * factor * scale[j] + offset[j];
      }
    });
    if (!exists || thread.rank != 0) return;
    mean[row] = center;
    rstd[row] = factor;
  });
}

template <class T, int V>
__global__ void __launch_bounds__(kRowBlock)
    layer_norm_backward_rows(const T* x, AnyList gamma, const Compute<T>* mean,
                             const Compute<T>* rstd, const T* dy, T* dx, RowJob job) {
  using C = Compute<T>;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    const C center = exists ? mean[row] : C(0);
    const C factor = exists ? rstd[row] : C(0);
    // x becomes normalized x, and dy the gradient of that.
    const auto prepare = [&gamma, center, factor](int64_t i, auto& values) {
      C scale[V];
      gamma.load<V>(i, scale, C(1));
      for (int j = 0; j < V; ++j) {
        values.x[0][j] = (values.x[0][j] - center) * factor;
        values.x[1][j] *= scale[j];
      }
    };
    Rows<T, V, 2, decltype(prepare)> rows(thread, exists ? job.width : 0,
                                          job.slots == 0 ? nullptr : cache + threadIdx.x, prepare);
    rows.set(0, x + row * job.width, 1);
    rows.set(1, dy + row * job.width, 1);
    Pair<double> sums{0, 0};
    rows.load([&](int64_t, const auto& values) {
      C total = 0, dot = 0;
      for (int j = 0; j < V; ++j) {
        total += values.x[1][j];
        dot += values.x[1][j] * values.x[0][j];
      }
      sums.a += static_cast<double>(total);
      sums.b += static_cast<double>(dot);
    });
    sums = thread.reduce(sums, AddPairOp(), Pair<double>{0, 0});
    const C mean_scaled = static_cast<C>(sums.a / static_cast<double>(job.width));
    const C mean_dot = static_cast<C>(sums.b / static_cast<double>(job.width));
    rows.write(dx + row * job.width, 1, [&](int64_t, auto& values) {
      for (int j = 0; j < V; ++j) {
        values.x[0][j] = factor * (values.x[1][j] - mean_scaled - values.x[0][j] * mean_dot);
      }
    });
  });
}

// Kept: the columns; reduced: the rows.
template <class T>
struct ParameterSource {
  static constexpr int kOperands = 2;
  static constexpr int kVector = kPacked<T>;
  using Value = Pair<double>;
  using Op = AddPairOp;
  __host__ __device__ static Value identity() { return {0, 0}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<2>& place, int64_t, int64_t reduced,
                         Value (&values)[V]) const {
    const Packed<T, V> inputs = load_packed<V>(x + place.at[0]);
    const Packed<T, V> gradients = load_packed<V>(dy + place.at[1]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int64_t row = rows ? reduced + j : reduced;
      const auto gradient = static_cast<Compute<T>>(gradients.value[j]);
      const auto unit = (static_cast<Compute<T>>(inputs.value[j]) - mean[row]) * rstd[row];
      values[j] = {static_cast<double>(gradient * unit), static_cast<double>(gradient)};
    }
  }

  const T* x;
  const T* dy;
  const Compute<T>* mean;
  const Compute<T>* rstd;
  Op op{};
};

struct ParameterFinish {
  __device__ void operator()(int64_t column, Pair<double> sums) const {
    dgamma.write_gradient(column, sums.a, accumulate);
    dbeta.write_gradient(column, sums.b, accumulate);
  }

  AnyList dgamma;
  AnyList dbeta;
  bool accumulate;
};

void layer_norm_cuda(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
                     Tensor& mean, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), "layer_norm", [&]<class T>() {
    using C = Compute<T>;
    RowJob job{x.dim(0), x.dim(1)};
    const bool packed = job.width % kPacked<T> == 0 && is_aligned(x) && is_aligned(y);
    with_vector<T>(packed, [&]<int V>() {
      const RowGrid grid(job.rows, job.width, V, sizeof(C));
      job.group = grid.group;
      job.slots = grid.slots;
      simt::launch("layer_norm", layer_norm_rows<T, V>, dim3(grid.blocks), dim3(kRowBlock),
                   grid.shared_bytes, tenon::cuda::stream_of(x), x.data<T>(), AnyList(gamma),
                   AnyList(beta), y.data<T>(), mean.data<C>(), rstd.data<C>(), eps, job);
    });
  });
}

template <class T>
void input_gradient(const Tensor& x, const Tensor* gamma, const Tensor& mean, const Tensor& rstd,
                    const Tensor& dy, Tensor& dx) {
  using C = Compute<T>;
  RowJob job{x.dim(0), x.dim(1)};
  const bool packed =
      job.width % kPacked<T> == 0 && is_aligned(x) && is_aligned(dy) && is_aligned(dx);
  with_vector<T>(packed, [&]<int V>() {
    const RowGrid grid(job.rows, job.width, V, 2 * sizeof(C));
    job.group = grid.group;
    job.slots = grid.slots;
    simt::launch("layer_norm_backward", layer_norm_backward_rows<T, V>, dim3(grid.blocks),
                 dim3(kRowBlock), grid.shared_bytes, tenon::cuda::stream_of(x), x.data<T>(),
                 AnyList(gamma), mean.data<C>(), rstd.data<C>(), dy.data<T>(), dx.data<T>(), job);
  });
}

void layer_norm_backward_cuda(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                              const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                              Tensor* dbeta, bool accumulate) {
  constexpr const char* op = "layer_norm_backward";
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    if (dx != nullptr && x.numel() > 0) input_gradient<T>(x, gamma, mean, rstd, dy, *dx);
    if (dgamma == nullptr && dbeta == nullptr) return;
    reduce<true>(op, x.device(), LoopPlan::over(2, {&x, &dy}), LoopPlan::over(1, {&x, &dy}),
                 is_aligned(x) && is_aligned(dy),
                 ParameterSource<T>{x.data<T>(), dy.data<T>(), mean.data<C>(), rstd.data<C>()},
                 ParameterFinish{AnyList(dgamma), AnyList(dbeta), accumulate});
  });
}

[[maybe_unused]] const bool registered =
    layer_norm.set(DeviceType::cuda, layer_norm_cuda) &&
    layer_norm_backward.set(DeviceType::cuda, layer_norm_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
