// Softmax and log-softmax. Where the elements of a row lie closest in memory a group of threads
// takes the row and keeps it in shared memory; elsewhere neighbouring threads take neighbouring
// rows, and the threads of a column share the elements.
#include "tenon/kernels/softmax.h"

#include "tenon/core/cuda/context.h"
#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

// Rows of N operands.
template <int N>
struct SoftmaxJob {
  Walk<N> rows;
  int64_t length;
  Offsets<N> strides;  // along a row
  int group = 1;       // threads of a row
  int slots = 0;
  bool log = false;
};

template <class C>
__device__ C lowest() {
  return -std::numeric_limits<C>::infinity();
}
// What is subtracted before exp: the maximum, or 0 where that is -infinity (exp then gives 0).
template <class C>
__device__ C exp_shift(C most) {
  return most == lowest<C>() ? C(0) : most;
}

template <class T, int V>
__global__ void __launch_bounds__(kRowBlock) softmax_rows(const T* x, T* y, SoftmaxJob<2> job) {
  using C = Compute<T>;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  thread.for_each_row(job.rows.count, [&](int64_t row, bool exists) {
    const Offsets<2> place = job.rows.place(exists ? row : 0);
    Rows<T, V, 1> rows(thread, exists ? job.length : 0,
                       job.slots == 0 ? nullptr : cache + threadIdx.x);
    using Values = typename Rows<T, V, 1>::Values;
    rows.set(0, x + place.at[0], job.strides.at[0]);
    C most = lowest<C>();
    rows.load([&](int64_t, const Values& values) {
      for (int j = 0; j < V; ++j) most = MaxNumberOp()(most, values.x[0][j]);
    });
    const C shift = exp_shift(thread.reduce(most, MaxNumberOp(), lowest<C>()));
    double sum = 0;
    rows.again([&](int64_t, Values& values) {
      C part = 0;
      for (int j = 0; j < V; ++j) {
        const C power = math::exp_not_positive(values.x[0][j] - shift);
        part += power;
        if (!job.log) values.x[0][j] = power;
      }
      sum += static_cast<double>(part);
    });
    sum = thread.reduce(sum, AddOp(), 0.0);
    const C rest = static_cast<C>(job.log ? math::log(sum) : 1 / sum);
    rows.write(y + place.at[1], job.strides.at[1], [&](int64_t, Values& values) {
      for (int j = 0; j < V; ++j) {
        C& value = values.x[0][j];
        if (job.log) {
          value = (value - shift) - rest;
        } else {
          value = (rows.cached() ? value : math::exp_not_positive(value - shift)) * rest;
        }
      }
    });
  });
}

// dx of one element, given sum(y dy) for softmax and sum(dy) for log-softmax.
template <class C>
__device__ C derivative(bool log, C y, C dy, C sum) {
  return log ? dy - math::exp_not_positive(y) * sum : y * (dy - sum);
}

template <class T, int V>
__global__ void __launch_bounds__(kRowBlock)
    softmax_backward_rows(const T* y, const T* dy, T* dx, SoftmaxJob<3> job) {
  using C = Compute<T>;
  SIMT_DYNAMIC_SHARED(C, cache);
  const RowThread thread(job.group);
  thread.for_each_row(job.rows.count, [&](int64_t row, bool exists) {
    const Offsets<3> place = job.rows.place(exists ? row : 0);
    Rows<T, V, 2> rows(thread, exists ? job.length : 0,
                       job.slots == 0 ? nullptr : cache + threadIdx.x);
    using Values = typename Rows<T, V, 2>::Values;
    rows.set(0, y + place.at[0], job.strides.at[0]);
    rows.set(1, dy + place.at[1], job.strides.at[1]);
    double total = 0;
    rows.load([&](int64_t, const Values& values) {
      C part = 0;
      for (int j = 0; j < V; ++j) {
        part += job.log ? values.x[1][j] : values.x[0][j] * values.x[1][j];
      }
      total += static_cast<double>(part);
    });
    const C sum = static_cast<C>(thread.reduce(total, AddOp(), 0.0));
    rows.write(dx + place.at[2], job.strides.at[2], [&](int64_t, Values& values) {
      for (int j = 0; j < V; ++j) {
        values.x[0][j] = derivative(job.log, values.x[0][j], values.x[1][j], sum);
      }
    });
  });
}

// Elements of a column that a thread has in flight.
template <class C>
inline constexpr int kLoads = sizeof(C) == 8 ? 1 : 4;

template <class T>
__global__ void __launch_bounds__(kMaxColumnThreads)
    softmax_columns(const T* x, T* y, SoftmaxJob<2> job) {
  using C = Compute<T>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Offsets<2> place = job.rows.place(row < job.rows.count ? row : 0);
  const int64_t length = row < job.rows.count ? job.length : 0;
  const auto value = [&](int64_t i) {
    return static_cast<C>(x[place.at[0] + i * job.strides.at[0]]);
  };
  C most = lowest<C>();
#pragma unroll kLoads < C>
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    most = MaxNumberOp()(most, value(i));
  }
  const C shift = exp_shift(column_reduce(most, MaxNumberOp()));
  double sum = 0;
#pragma unroll kLoads < C>
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    sum += static_cast<double>(math::exp_not_positive(value(i) - shift));
  }
  sum = column_reduce(sum, AddOp());
  const C rest = static_cast<C>(job.log ? math::log(sum) : 1 / sum);
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    const C distance = value(i) - shift;
    y[place.at[1] + i * job.strides.at[1]] =
        static_cast<T>(job.log ? distance - rest : math::exp_not_positive(distance) * rest);
  }
}

template <class T>
__global__ void __launch_bounds__(kMaxColumnThreads)
    softmax_backward_columns(const T* y, const T* dy, T* dx, SoftmaxJob<3> job) {
  using C = Compute<T>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Offsets<3> place = job.rows.place(row < job.rows.count ? row : 0);
  const int64_t length = row < job.rows.count ? job.length : 0;
  const auto value = [&](int64_t i) {
    return static_cast<C>(y[place.at[0] + i * job.strides.at[0]]);
  };
  const auto gradient = [&](int64_t i) {
    return static_cast<C>(dy[place.at[1] + i * job.strides.at[1]]);
  };
  double total = 0;
#pragma unroll kLoads < C>
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    total += static_cast<double>(job.log ? gradient(i) : value(i) * gradient(i));
  }
  const C sum = static_cast<C>(column_reduce(total, AddOp()));
  for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
    dx[place.at[2] + i * job.strides.at[2]] =
        static_cast<T>(derivative(job.log, value(i), gradient(i), sum));
  }
}

template <int N>
struct Softmax {
  Softmax(std::initializer_list<const Tensor*> operands, int axis, bool log)
      : plan(LoopPlan::over(~(1u << axis), operands)), job{Walk<N>(plan), 0, {}, 1, 0, log} {
    const Tensor& first = **operands.begin();
    job.length = first.dim(axis);
    by_rows = first.strides()[axis] <= plan.inner_stride(0) || plan.count == 1;
    int k = 0;
    for (const Tensor* operand : operands) {
      job.strides.at[k] = operand->strides()[axis];
      all_aligned = all_aligned && is_aligned(*operand);
      ++k;
    }
  }
  bool packs(int64_t vector) const {
    if (!all_aligned || job.length % vector != 0) return false;
    for (int k = 0; k < N; ++k) {
      if (job.strides.at[k] != 1 || !job.rows.starts_groups(vector, k, job.rows.dims)) return false;
    }
    return true;
  }
  // Launches rows(V) or columns with the parameters of the job.
  template <class T, class RowKernel, class ColumnKernel, class... Data>
  void launch(const char* op, const Tensor& like, const RowKernel& row_kernel,
              const ColumnKernel& column_kernel, Data... data) {
    const cudaStream_t stream = tenon::cuda::stream_of(like);
    if (by_rows) {
      with_vector<T>(packs(kPacked<T>), [&]<int V>() {
        const RowGrid grid(job.rows.count, job.length, V, (N - 1) * sizeof(Compute<T>));
        job.group = grid.group;
        job.slots = grid.slots;
        simt::launch(op, row_kernel(std::integral_constant<int, V>()), dim3(grid.blocks),
                     dim3(kRowBlock), grid.shared_bytes, stream, data..., job);
      });
      return;
    }
    const int width = power_of_two_from(job.rows.count, kWarp);
    const int height = power_of_two_from(job.length, kMaxColumnThreads / width);
    const int columns = power_of_two_from(job.rows.count, kMaxColumnThreads / height);
    simt::launch(op, column_kernel, dim3(static_cast<unsigned>(divide_up(job.rows.count, columns))),
                 dim3(static_cast<unsigned>(columns), static_cast<unsigned>(height)), 0, stream,
                 data..., job);
  }

  LoopPlan plan;
  SoftmaxJob<N> job;
  bool by_rows = false;
  bool all_aligned = true;
};

template <bool log>
void forward(const Tensor& x, Tensor& y, int axis) {
  if (x.numel() == 0) return;
  constexpr const char* op = log ? "log_softmax" : "softmax";
  Softmax<2> softmax({&x, &y}, axis, log);
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    softmax.launch<T>(
        op, y, []<int V>(std::integral_constant<int, V>) { return softmax_rows<T, V>; },
        softmax_columns<T>, static_cast<const T*>(x.data<T>()), y.data<T>());
  });
}

template <bool log>
void backward(const Tensor& y, const Tensor& dy, Tensor& dx, int axis) {
  if (dx.numel() == 0) return;
  constexpr const char* op = log ? "log_softmax_backward" : "softmax_backward";
  Softmax<3> softmax({&y, &dy, &dx}, axis, log);
  dispatch_floating(dx.dtype(), op, [&]<class T>() {
    softmax.launch<T>(
        op, dx, []<int V>(std::integral_constant<int, V>) { return softmax_backward_rows<T, V>; },
        softmax_backward_columns<T>, static_cast<const T*>(y.data<T>()),
        static_cast<const T*>(dy.data<T>()), dx.data<T>());
  });
}

[[maybe_unused]] const bool registered = softmax.set(DeviceType::cuda, forward<false>) &&
                                         softmax_backward.set(DeviceType::cuda, backward<false>) &&
                                         log_softmax.set(DeviceType::cuda, forward<true>) &&
                                         log_softmax_backward.set(DeviceType::cuda, backward<true>);

}  // namespace
}  // namespace tenon::kernels::cuda
