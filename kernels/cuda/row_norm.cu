// Layer norm and RMS norm (not `centred`) over contiguous rows. A group of threads keeps its row in
// shared memory, so mean, variance and result are separate passes over it and the row is read once.
// The gradients of gamma and beta are sums over columns.
#include <type_traits>

#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

// Left to itself the compiler spills registers for the sake of more blocks.
constexpr int kBlocksOfSm = 4;

struct RowJob {
  int64_t rows;
  int64_t width;
  int group = 1;  // threads of a row
  int slots = 0;
};

template <class T, int V, bool centred>
__global__ void __launch_bounds__(kRowBlock, kBlocksOfSm)
    norm_rows(const T* x, AnyList gamma, AnyList beta, T* y, Compute<T>* mean, Compute<T>* rstd,
              double eps, RowJob job) {
  using C = Compute<T>;
  using Values = typename Rows<T, V, 1>::Values;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  const auto width = static_cast<double>(job.width);
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    Rows<T, V, 1> rows(thread, exists ? job.width : 0,
                       job.slots == 0 ? nullptr : cache + threadIdx.x);
    rows.set(0, x + row * job.width, 1);
    C center = 0;
    double squares = 0;
    const auto add_squares = [&](int64_t, const Values& values) {
      C part = 0;
      for (int j = 0; j < V; ++j) {
        const C deviation = values.x[0][j] - center;
        part += deviation * deviation;
      }
      squares += static_cast<double>(part);
    };
    if constexpr (centred) {
      double total = 0;
      rows.load([&](int64_t, const Values& values) {
        C part = 0;
        for (int j = 0; j < V; ++j) part += values.x[0][j];
        total += static_cast<double>(part);
      });
      center = static_cast<C>(thread.reduce(total, AddOp(), 0.0) / width);
      rows.again(add_squares);
    } else {
      rows.load(add_squares);
    }
    squares = thread.reduce(squares, AddOp(), 0.0);
    const C factor = static_cast<C>(1 / math::sqrt(squares / width + eps));
    rows.write(y + row * job.width, 1, [&](int64_t i, Values& values) {
      C scale[V], offset[V];
      gamma.load<V>(i, scale, C(1));
      if constexpr (centred) beta.load<V>(i, offset, C(0));
      for (int j = 0; j < V; ++j) {
        values.x[0][j] = (values.x[0][j] - center) * factor * scale[j];
        if constexpr (centred) values.x[0][j] += offset[j];
      }
    });
    if (!exists || thread.rank != 0) return;
    if constexpr (centred) mean[row] = center;
    rstd[row] = factor;
  });
}

// With `add` dx is added to what is there.
template <class T, int V, bool centred>
__global__ void __launch_bounds__(kRowBlock, kBlocksOfSm)
    norm_backward_rows(const T* x, AnyList gamma, const Compute<T>* mean, const Compute<T>* rstd,
                       const T* dy, T* dx, bool add, RowJob job) {
  using C = Compute<T>;
  using Sums = std::conditional_t<centred, Pair<double>, double>;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    C center = 0;
    if constexpr (centred) center = exists ? mean[row] : C(0);
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
    double total = 0, dot = 0;
    rows.load([&](int64_t, const auto& values) {
      C gradients = 0, products = 0;
      for (int j = 0; j < V; ++j) {
        if constexpr (centred) gradients += values.x[1][j];
        products += values.x[1][j] * values.x[0][j];
      }
      total += static_cast<double>(gradients);
      dot += static_cast<double>(products);
    });
    if constexpr (centred) {
      const Sums sums = thread.reduce(Sums{total, dot}, AddPairOp(), Sums{0, 0});
      total = sums.a;
      dot = sums.b;
    } else {
      dot = thread.reduce(dot, AddOp(), 0.0);
    }
    const C mean_scaled = static_cast<C>(total / static_cast<double>(job.width));
    const C mean_dot = static_cast<C>(dot / static_cast<double>(job.width));
    T* const result = dx + row * job.width;
    rows.write(result, 1, [&](int64_t i, auto& values) {
      const Packed<T, V> old = add ? load_packed<V>(result + i) : Packed<T, V>{};
      for (int j = 0; j < V; ++j) {
        const C gradient = factor * (values.x[1][j] - mean_scaled - values.x[0][j] * mean_dot);
        values.x[0][j] = add ? static_cast<C>(old.value[j]) + gradient : gradient;
      }
    });
  });
}

// Kept: the columns; reduced: the rows. Sums for gamma, and for beta if `centred`.
template <class T, bool centred>
struct ParameterSource {
  static constexpr int kOperands = 2;
  static constexpr int kVector = kPacked<T>;
  using Value = std::conditional_t<centred, Pair<double>, double>;
  using Op = std::conditional_t<centred, AddPairOp, AddOp>;
  __host__ __device__ static Value identity() { return Value{}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<2>& place, int64_t, int64_t reduced,
                         Value (&values)[V]) const {
    const Packed<T, V> inputs = load_packed<V>(x + place.at[0]);
    const Packed<T, V> gradients = load_packed<V>(dy + place.at[1]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int64_t row = rows ? reduced + j : reduced;
      const auto gradient = static_cast<Compute<T>>(gradients.value[j]);
      auto unit = static_cast<Compute<T>>(inputs.value[j]);
      if constexpr (centred) {
        unit = (unit - mean[row]) * rstd[row];
        values[j] = {static_cast<double>(gradient * unit), static_cast<double>(gradient)};
      } else {
        values[j] = static_cast<double>(gradient * (unit * rstd[row]));
      }
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
  __device__ void operator()(int64_t column, double sum) const {
    dgamma.write_gradient(column, sum, accumulate);
  }

  AnyList dgamma;
  AnyList dbeta;
  bool accumulate;
};

// kernel(V)(arguments…, job) for the rows of x, in groups of V where all `operands` allow;
// `cached` bytes of an element are kept.
template <class T, class Kernel, class... Arguments>
void launch_rows(const char* op, const Tensor& x, std::initializer_list<const Tensor*> operands,
                 int64_t cached, const Kernel& kernel, Arguments... arguments) {
  RowJob job{x.dim(0), x.dim(1)};
  bool packed = job.width % kPacked<T> == 0;
  for (const Tensor* operand : operands) packed = packed && is_aligned(*operand);
  with_vector<T>(packed, [&]<int V>() {
    const RowGrid grid(job.rows, job.width, V, cached);
    job.group = grid.group;
    job.slots = grid.slots;
    simt::launch(op, kernel(std::integral_constant<int, V>()), dim3(grid.blocks), dim3(kRowBlock),
                 grid.shared_bytes, tenon::cuda::stream_of(x), arguments..., job);
  });
}

template <bool centred>
void forward(const char* op, const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
             Tensor* mean, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    launch_rows<T>(
        op, x, {&x, &y}, sizeof(C),
        []<int V>(std::integral_constant<int, V>) { return norm_rows<T, V, centred>; }, x.data<T>(),
        AnyList(gamma), AnyList(beta), y.data<T>(), mean != nullptr ? mean->data<C>() : nullptr,
        rstd.data<C>(), eps);
  });
}

template <bool centred>
void backward(const char* op, const Tensor& x, const Tensor* gamma, const Tensor* mean,
              const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma, Tensor* dbeta,
              NormAccumulate accumulate) {
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const C* const means = mean != nullptr ? mean->data<C>() : nullptr;
    if (dx != nullptr && x.numel() > 0) {
      launch_rows<T>(
          op, x, {&x, &dy, dx}, 2 * sizeof(C),
          []<int V>(std::integral_constant<int, V>) { return norm_backward_rows<T, V, centred>; },
          x.data<T>(), AnyList(gamma), means, rstd.data<C>(), dy.data<T>(), dx->data<T>(),
          accumulate.input);
    }
    if (dgamma == nullptr && dbeta == nullptr) return;
    reduce<true>(op, x.device(), LoopPlan::over(2, {&x, &dy}), LoopPlan::over(1, {&x, &dy}),
                 is_aligned(x) && is_aligned(dy),
                 ParameterSource<T, centred>{x.data<T>(), dy.data<T>(), means, rstd.data<C>()},
                 ParameterFinish{AnyList(dgamma), AnyList(dbeta), accumulate.parameters});
  });
}

void layer_norm_cuda(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
                     Tensor& mean, Tensor& rstd, double eps) {
  forward<true>("layer_norm", x, gamma, beta, y, &mean, rstd, eps);
}

void layer_norm_backward_cuda(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                              const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                              Tensor* dbeta, NormAccumulate accumulate) {
  backward<true>("layer_norm_backward", x, gamma, &mean, rstd, dy, dx, dgamma, dbeta, accumulate);
}

void rms_norm_cuda(const Tensor& x, const Tensor* gamma, Tensor& y, Tensor& rstd, double eps) {
  forward<false>("rms_norm", x, gamma, nullptr, y, nullptr, rstd, eps);
}

void rms_norm_backward_cuda(const Tensor& x, const Tensor* gamma, const Tensor& rstd,
                            const Tensor& dy, Tensor* dx, Tensor* dgamma,
                            NormAccumulate accumulate) {
  backward<false>("rms_norm_backward", x, gamma, nullptr, rstd, dy, dx, dgamma, nullptr,
                  accumulate);
}

[[maybe_unused]] const bool registered =
    layer_norm.set(DeviceType::cuda, layer_norm_cuda) &&
    layer_norm_backward.set(DeviceType::cuda, layer_norm_backward_cuda) &&
    rms_norm.set(DeviceType::cuda, rms_norm_cuda) &&
    rms_norm_backward.set(DeviceType::cuda, rms_norm_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
