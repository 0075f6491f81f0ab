// Batch norm. Statistics and parameter gradients are sums over all axes but the channel's, in f64:
// so a large mean costs no accuracy. What a channel's elements need later is put side by side by
// the same kernel, and read by an elementwise one, which walks all operands together with the
// channel number as one more; any layout is correct.

#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

constexpr uint32_t kChannelAxis = 2;  // axis mask of (N, C, …)
constexpr int64_t kMapBlocks = 1 << 13;

// Forward: y = (x - mean) factor + shift.
// Backward: dx = factor (dy - shift - (x - mean) slope).
template <class C>
struct alignas(16) Channel {
  C mean, factor, shift, slope;
};

// ---- sums of a channel

template <class T>
struct MomentSource {
  static constexpr int kOperands = 1;
  static constexpr int kVector = kPacked<T>;
  using Value = Pair<double>;
  using Op = AddPairOp;
  __host__ __device__ static Value identity() { return {0, 0}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<1>& place, int64_t channel, int64_t,
                         Value (&values)[V]) const {
    const Packed<T, V> loaded = load_packed<V>(x + place.at[0]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const double center = pivot == nullptr ? 0 : pivot[rows ? channel : channel + j];
      const double deviation =
          static_cast<double>(static_cast<Compute<T>>(loaded.value[j])) - center;
      values[j] = {deviation, deviation * deviation};
    }
  }

  const T* x;
  const double* pivot;  // of each channel, or null for 0
  Op op{};
};

struct MeanFinish {
  __device__ void operator()(int64_t channel, Pair<double> sums) const {
    mean[channel] = sums.a / count;
  }

  double* mean;
  double count;
};

template <class C>
struct MomentFinish {
  __device__ void operator()(int64_t channel, Pair<double> sums) const {
    const double shifted = sums.a / count;
    const double variance = sums.b / count - shifted * shifted;
    const double center = (pivot == nullptr ? 0 : pivot[channel]) + shifted;
    const C scale = static_cast<C>(1 / math::sqrt((variance > 0 ? variance : 0) + eps));
    // A comparison that NaN fails must not hide it.
    rstd[channel] = variance == variance ? scale : static_cast<C>(variance);
    mean[channel] = static_cast<C>(center);
    channels[channel] = {mean[channel], gamma.load<C>(channel, C(1)) * rstd[channel],
                         beta.load<C>(channel, C(0)), C(0)};
  }

  const double* pivot;
  double count;
  double eps;
  AnyList gamma;
  AnyList beta;
  C* mean;
  C* rstd;
  Channel<C>* channels;
};

// dy (x - mean) and dy.
template <class T>
struct GradientSource {
  static constexpr int kOperands = 2;
  static constexpr int kVector = kPacked<T>;
  using Value = Pair<double>;
  using Op = AddPairOp;
  __host__ __device__ static Value identity() { return {0, 0}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<2>& place, int64_t channel, int64_t,
                         Value (&values)[V]) const {
    const Packed<T, V> inputs = load_packed<V>(x + place.at[0]);
    const Packed<T, V> gradients = load_packed<V>(dy + place.at[1]);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const Compute<T> center = mean[rows ? channel : channel + j];
      const auto gradient = static_cast<Compute<T>>(gradients.value[j]);
      const Compute<T> dot = gradient * (static_cast<Compute<T>>(inputs.value[j]) - center);
      values[j] = {static_cast<double>(dot), static_cast<double>(gradient)};
    }
  }

  const T* x;
  const T* dy;
  const Compute<T>* mean;
  Op op{};
};

template <class C>
struct GradientFinish {
  __device__ void operator()(int64_t channel, Pair<double> sums) const {
    const auto scale = static_cast<double>(rstd[channel]);
    dgamma.write_gradient(channel, sums.a * scale, accumulate);
    dbeta.write_gradient(channel, sums.b, accumulate);
    if (channels == nullptr) return;
    const C factor = gamma.load<C>(channel, C(1)) * rstd[channel];
    const double share = batch_statistics ? 1 / count : 0;
    channels[channel] = {mean[channel], factor, static_cast<C>(sums.b * share),
                         static_cast<C>(sums.a * scale * scale * share)};
  }

  double count;
  AnyList gamma;
  const C* mean;
  const C* rstd;
  AnyList dgamma;
  AnyList dbeta;
  Channel<C>* channels;
  bool batch_statistics;
  bool accumulate;
};

// Where no sums are needed.
template <class C>
__global__ void __launch_bounds__(kRowBlock)
    fill_channels(const C* mean, const C* rstd, AnyList gamma, AnyList beta, int64_t count,
                  Channel<C>* channels) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= count) return;
  channels[channel] = {mean[channel], gamma.load<C>(channel, C(1)) * rstd[channel],
                       beta.load<C>(channel, C(0)), C(0)};
}

// ---- elementwise

// Operands of the walk: out, x, (dy,) and the number of the channel.
template <class T, int V, bool backward>
__global__ void __launch_bounds__(kRowBlock)
    map_channels(T* out, const T* x, const T* dy, const Channel<Compute<T>>* channels,
                 Walk<backward ? 4 : 3> walk, int channel_step) {
  using C = Compute<T>;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * V;
#pragma unroll 2
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
       i < walk.count; i += step) {
    const auto place = walk.place(i);
    const Packed<T, V> inputs = load_packed<V>(x + place.at[1]);
    Packed<T, V> gradients, results;
    if constexpr (backward) gradients = load_packed<V>(dy + place.at[2]);
    const Channel<C>* channel = channels + place.at[backward ? 3 : 2];
    Channel<C> k = *channel;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (j > 0 && channel_step != 0) k = channel[j];
      const C deviation = static_cast<C>(inputs.value[j]) - k.mean;
      if constexpr (backward) {
        const C gradient = static_cast<C>(gradients.value[j]);
        results.value[j] = static_cast<T>(k.factor * (gradient - k.shift - deviation * k.slope));
      } else {
        results.value[j] = static_cast<T>(deviation * k.factor + k.shift);
      }
    }
    store_packed(out + place.at[0], results);
  }
}

// Groups of `vector` elements share their channel or have following ones.
bool packs(const LoopPlan& plan, std::initializer_list<const Tensor*> operands, int64_t vector) {
  if (plan.inner() % vector != 0) return false;
  for (const Tensor* operand : operands) {
    if (!is_aligned(*operand)) return false;
  }
  const int channel = plan.operands - 1;
  if (plan.inner_stride(channel) > 1) return false;
  for (int k = 0; k < channel; ++k) {
    if (plan.inner_stride(k) != 1) return false;
    for (int dim = 0; dim + 1 < plan.dims; ++dim) {
      if (plan.stride(k, dim) % vector != 0) return false;
    }
  }
  return true;
}

template <class T, bool backward>
void map(const char* op, Tensor& out, const Tensor& x, const Tensor& dy,
         const Channel<Compute<T>>* channels) {
  const LoopPlan plan =
      backward ? LoopPlan::with_channel({&out, &x, &dy}) : LoopPlan::with_channel({&out, &x});
  with_vector<T>(packs(plan, {&out, &x, &dy}, kPacked<T>), [&]<int V>() {
    const int64_t blocks = std::min(divide_up(plan.count, V * kRowBlock), kMapBlocks);
    simt::launch(op, map_channels<T, V, backward>, dim3(static_cast<unsigned>(blocks)),
                 dim3(kRowBlock), 0, tenon::cuda::stream_of(out), out.data<T>(), x.data<T>(),
                 dy.data<T>(), channels, Walk < backward ? 4 : 3 > (plan),
                 static_cast<int>(plan.inner_stride(plan.operands - 1)));
  });
}

// ---- the slots

double elements_per_channel(const Tensor& x) {
  return x.dim(1) == 0 ? 0 : static_cast<double>(x.numel() / x.dim(1));
}

template <class Source, class Finish>
void sum_channels(const char* op, std::initializer_list<const Tensor*> operands,
                  const Source& source, const Finish& finish) {
  bool aligned = true;
  for (const Tensor* operand : operands) aligned = aligned && is_aligned(*operand);
  reduce<true>(op, (*operands.begin())->device(), LoopPlan::over(kChannelAxis, operands),
               LoopPlan::over(~kChannelAxis, operands), aligned, source, finish);
}

template <class C>
void fill(const char* op, const Tensor& mean, const Tensor& rstd, const Tensor* gamma,
          const Tensor* beta, Channel<C>* channels) {
  const int64_t count = mean.numel();
  simt::launch(op, fill_channels<C>, dim3(static_cast<unsigned>(divide_up(count, kRowBlock))),
               dim3(kRowBlock), 0, tenon::cuda::stream_of(mean), mean.data<C>(), rstd.data<C>(),
               AnyList(gamma), AnyList(beta), count, channels);
}

void batch_norm_cuda(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
                     Tensor& mean, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  constexpr const char* op = "batch_norm";
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const double count = elements_per_channel(x);
    const auto channels = static_cast<size_t>(x.dim(1));
    const tenon::cuda::Scratch scratch(x.device(), channels * sizeof(Channel<C>));
    // Squares of f64 elements lose digits in f64: they are taken around the mean.
    constexpr bool two_passes = std::is_same_v<C, double>;
    const tenon::cuda::Scratch means(x.device(), two_passes ? channels * sizeof(double) : 0);
    double* const pivot = two_passes ? means.data<double>() : nullptr;
    if constexpr (two_passes) {
      sum_channels(op, {&x}, MomentSource<T>{x.data<T>(), nullptr}, MeanFinish{pivot, count});
    }
    sum_channels(op, {&x}, MomentSource<T>{x.data<T>(), pivot},
                 MomentFinish<C>{pivot, count, eps, AnyList(gamma), AnyList(beta), mean.data<C>(),
                                 rstd.data<C>(), scratch.data<Channel<C>>()});
    map<T, false>(op, y, x, x, scratch.data<Channel<C>>());
  });
}

void batch_norm_inference_cuda(const Tensor& x, const Tensor* gamma, const Tensor* beta,
                               const Tensor& mean, const Tensor& rstd, Tensor& y) {
  if (x.numel() == 0) return;
  constexpr const char* op = "batch_norm_inference";
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const tenon::cuda::Scratch scratch(x.device(),
                                       static_cast<size_t>(x.dim(1)) * sizeof(Channel<C>));
    fill(op, mean, rstd, gamma, beta, scratch.data<Channel<C>>());
    map<T, false>(op, y, x, x, scratch.data<Channel<C>>());
  });
}

void batch_norm_backward_cuda(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                              const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                              Tensor* dbeta, bool batch_statistics, bool accumulate) {
  constexpr const char* op = "batch_norm_backward";
  const bool with_dx = dx != nullptr && x.numel() > 0;
  const bool with_sums = dgamma != nullptr || dbeta != nullptr || (with_dx && batch_statistics);
  dispatch_floating(x.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const auto channels = static_cast<size_t>(x.dim(1));
    const tenon::cuda::Scratch scratch(x.device(), with_dx ? channels * sizeof(Channel<C>) : 0);
    Channel<C>* const data = with_dx ? scratch.data<Channel<C>>() : nullptr;
    if (with_sums) {
      sum_channels(
          op, {&x, &dy}, GradientSource<T>{x.data<T>(), dy.data<T>(), mean.data<C>()},
          GradientFinish<C>{elements_per_channel(x), AnyList(gamma), mean.data<C>(), rstd.data<C>(),
                            AnyList(dgamma), AnyList(dbeta), data, batch_statistics, accumulate});
    } else if (with_dx) {
      fill(op, mean, rstd, gamma, nullptr, data);
    }
    if (with_dx) map<T, true>(op, *dx, x, dy, data);
  });
}

[[maybe_unused]] const bool registered =
    batch_norm.set(DeviceType::cuda, batch_norm_cuda) &&
    batch_norm_inference.set(DeviceType::cuda, batch_norm_inference_cuda) &&
    batch_norm_backward.set(DeviceType::cuda, batch_norm_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
