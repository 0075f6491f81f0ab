// Batch norm. A walk of all operands together also counts the channel, which is constant along a
// row of a row-major tensor and follows the row of a channels-last one; any layout is correct.
#include <algorithm>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/norm_parameters.h"
#include "tenon/kernels/cpu/sum_loops.h"
#include "tenon/kernels/norm.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;
using cpu::kChunk;
using cpu::SumPlan;

constexpr uint32_t kChannelAxis = 2;  // axis mask of (N, C, …)

// body(begin, n, channel, step): n elements from `begin` on; the channel of element i is
// channel + i * step.
template <class Body>
void for_each_channel_row(const LoopPlan& plan, int64_t bytes, const Body& body) {
  const int channel = plan.operands - 1;
  parallel_for(plan.count, bytes, [&](int64_t begin, int64_t end) {
    LoopCursor cursor(plan, begin);
    while (begin < end) {
      const int64_t n = std::min({cursor.left(), kChunk, end - begin});
      body(begin, n, static_cast<size_t>(cursor.offset(channel)), plan.inner_stride(channel));
      cursor.advance(n);
      begin += n;
    }
  });
}

// out[i] = value(i, constants of the channel of i); constants(c) gives a channel's.
template <class C, class Constants, class Value>
void map_row(C* out, int64_t n, size_t channel, int64_t step, const Constants& constants,
             const Value& value) {
  if (step == 0) {
    const auto fixed = constants(channel);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = value(i, fixed);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      out[i] = value(i, constants(channel + static_cast<size_t>(i)));
    }
  }
}

SumPlan sum_plan(std::initializer_list<const Tensor*> operands) {
  int64_t bytes = 0;
  for (const Tensor* operand : operands) bytes += static_cast<int64_t>(operand->nbytes());
  return {LoopPlan::over(kChannelAxis, operands), LoopPlan::over(~kChannelAxis, operands), bytes};
}

// (x - mean)^2, or dy (x - mean) with a second operand.
template <class C, bool with_gradient>
class DeviationSource {
 public:
  DeviationSource(const SumPlan& plan, const Tensor& x, const Tensor& dy, const C* mean)
      : x_(walked(plan), 0, x), dy_(walked(plan), with_gradient ? 1 : 0, dy), mean_(mean) {}

  const C* row(int64_t channel, const LoopCursor& kept, const LoopCursor& reduced, int64_t n,
               C* buffer) const {
    const C mean = mean_[channel];
    alignas(64) C dy_buffer[kChunk];
    const C* x = x_.load_row(kept.offset(0) + reduced.offset(0), n, buffer);
    const C* dy = x;
    if constexpr (with_gradient) {
      dy = dy_.load_row(kept.offset(1) + reduced.offset(1), n, dy_buffer);
    }
    return values(x, dy, n, buffer, [mean](int64_t) { return mean; });
  }
  const C* columns(const LoopCursor& reduced, int64_t at, int64_t n, C* buffer) const {
    const C* mean = mean_ + at;
    alignas(64) C dy_buffer[kChunk];
    const C* x = x_.load(at, n, buffer, reduced.offset(0));
    const C* dy = x;
    if constexpr (with_gradient) dy = dy_.load(at, n, dy_buffer, reduced.offset(1));
    return values(x, dy, n, buffer, [mean](int64_t i) { return mean[i]; });
  }

 private:
  static const LoopPlan& walked(const SumPlan& plan) {
    return plan.by_rows() ? plan.reduced : plan.kept;
  }
  template <class Mean>
  static const C* values(const C* x, const C* dy, int64_t n, C* buffer, const Mean& mean) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const C deviation = x[i] - mean(i);
      buffer[i] = deviation * (with_gradient ? dy[i] : deviation);
    }
    return buffer;
  }

  ChunkOperand<C> x_;
  ChunkOperand<C> dy_;
  const C* mean_;
};

int64_t elements_per_channel(const Tensor& x) { return x.dim(1) == 0 ? 0 : x.numel() / x.dim(1); }

template <class C>
void statistics(const Tensor& x, double eps, C* mean, C* rstd) {
  const SumPlan plan = sum_plan({&x});
  const auto count = static_cast<double>(elements_per_channel(x));
  const auto sums = cpu::sum_over<C>(plan, cpu::PlainSource<C>(plan, x));
  for (size_t c = 0; c < sums.size(); ++c) mean[c] = static_cast<C>(sums[c] / count);
  const auto squares = cpu::sum_over<C>(plan, DeviationSource<C, false>(plan, x, x, mean));
  for (size_t c = 0; c < squares.size(); ++c) {
    rstd[c] = static_cast<C>(1 / math::sqrt(squares[c] / count + eps));
  }
}

template <class C>
void normalize(const Tensor& x, const Tensor* gamma, const Tensor* beta, const C* mean,
               const C* rstd, Tensor& y) {
  const int64_t channels = x.dim(1);
  std::vector<C> factors = cpu::parameter_values<C>(gamma, channels, 1);
  for (size_t c = 0; c < factors.size(); ++c) factors[c] *= rstd[c];
  const std::vector<C> offsets = cpu::parameter_values<C>(beta, channels, 0);
  const LoopPlan plan = LoopPlan::with_channel({&y, &x});
  const ChunkOperand<C> out(plan, 0, y);
  const ChunkOperand<C> in(plan, 1, x);
  struct Constants {
    C mean, factor, offset;
  };
  for_each_channel_row(plan, static_cast<int64_t>(x.nbytes() + y.nbytes()),
                       [&, factor = factors.data(), offset = offsets.data()](
                           int64_t begin, int64_t n, size_t channel, int64_t step) {
                         alignas(64) C in_buffer[kChunk];
                         alignas(64) C out_buffer[kChunk];
                         const C* values = in.load(begin, n, in_buffer);
                         C* const result = out.target(begin, n, out_buffer);
                         map_row(
                             result, n, channel, step,
                             [=](size_t c) {
                               return Constants{mean[c], factor[c], offset[c]};
                             },
                             [=](int64_t i, const Constants& k) {
                               return (values[i] - k.mean) * k.factor + k.offset;
                             });
                         out.store(begin, n, result, out_buffer);
                       });
}

// dx = factor (dy - dy_mean - (x - mean) slope), all but x and dy per channel.
template <class C>
struct InputGradient {
  std::vector<C> factor, dy_mean, slope;

  void write(const Tensor& x, const Tensor& dy, const C* mean, Tensor& dx) const {
    const LoopPlan plan = LoopPlan::with_channel({&dx, &x, &dy});
    const ChunkOperand<C> out(plan, 0, dx);
    const ChunkOperand<C> in(plan, 1, x);
    const ChunkOperand<C> grads(plan, 2, dy);
    struct Constants {
      C mean, factor, dy_mean, slope;
    };
    for_each_channel_row(
        plan, 3 * static_cast<int64_t>(x.nbytes()),
        [&](int64_t begin, int64_t n, size_t channel, int64_t step) {
          alignas(64) C in_buffer[kChunk];
          alignas(64) C grad_buffer[kChunk];
          alignas(64) C out_buffer[kChunk];
          const C* values = in.load(begin, n, in_buffer);
          const C* grad = grads.load(begin, n, grad_buffer);
          C* const result = out.target(begin, n, out_buffer);
          map_row(
              result, n, channel, step,
              [=, f = factor.data(), d = dy_mean.data(), s = slope.data()](size_t c) {
                return Constants{mean[c], f[c], d[c], s[c]};
              },
              [=](int64_t i, const Constants& k) {
                return k.factor * (grad[i] - k.dy_mean - (values[i] - k.mean) * k.slope);
              });
          out.store(begin, n, result, out_buffer);
        });
  }
};

template <class C>
void backward(const Tensor& x, const Tensor* gamma, const Tensor& mean, const Tensor& rstd,
              const Tensor& dy, Tensor* dx, Tensor* dgamma, Tensor* dbeta, bool batch_statistics,
              bool accumulate) {
  const int64_t channels = x.dim(1);
  const C* const means = mean.data<C>();
  const C* const rstds = rstd.data<C>();
  std::vector<double> dy_sums(static_cast<size_t>(channels));
  std::vector<double> dots(static_cast<size_t>(channels));  // sum of dy times normalized x
  if (x.numel() > 0 && (batch_statistics || dgamma != nullptr || dbeta != nullptr)) {
    const SumPlan dy_plan = sum_plan({&dy});
    dy_sums = cpu::sum_over<C>(dy_plan, cpu::PlainSource<C>(dy_plan, dy));
    const SumPlan plan = sum_plan({&x, &dy});
    dots = cpu::sum_over<C>(plan, DeviationSource<C, true>(plan, x, dy, means));
    for (size_t c = 0; c < dots.size(); ++c) dots[c] *= static_cast<double>(rstds[c]);
  }
  if (dx != nullptr && x.numel() > 0) {
    InputGradient<C> gradient{cpu::parameter_values<C>(gamma, channels, 1),
                              std::vector<C>(static_cast<size_t>(channels)),
                              std::vector<C>(static_cast<size_t>(channels))};
    const auto count = static_cast<double>(elements_per_channel(x));
    for (size_t c = 0; c < gradient.factor.size(); ++c) {
      gradient.factor[c] *= rstds[c];
      if (!batch_statistics) continue;
      gradient.dy_mean[c] = static_cast<C>(dy_sums[c] / count);
      gradient.slope[c] = static_cast<C>(dots[c] * static_cast<double>(rstds[c]) / count);
    }
    gradient.write(x, dy, means, *dx);
  }
  cpu::write_gradient(dots, dgamma, accumulate);
  cpu::write_gradient(dy_sums, dbeta, accumulate);
}

void batch_norm_cpu(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
                    Tensor& mean, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  dispatch_types<float, double>(compute_dtype(x.dtype()), "batch_norm", [&]<class C>() {
    statistics(x, eps, mean.data<C>(), rstd.data<C>());
    normalize<C>(x, gamma, beta, mean.data<C>(), rstd.data<C>(), y);
  });
}

void batch_norm_inference_cpu(const Tensor& x, const Tensor* gamma, const Tensor* beta,
                              const Tensor& mean, const Tensor& rstd, Tensor& y) {
  if (x.numel() == 0) return;
  dispatch_types<float, double>(compute_dtype(x.dtype()), "batch_norm_inference", [&]<class C>() {
    normalize<C>(x, gamma, beta, mean.data<C>(), rstd.data<C>(), y);
  });
}

void batch_norm_backward_cpu(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                             const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                             Tensor* dbeta, bool batch_statistics, bool accumulate) {
  dispatch_types<float, double>(compute_dtype(x.dtype()), "batch_norm_backward", [&]<class C>() {
    backward<C>(x, gamma, mean, rstd, dy, dx, dgamma, dbeta, batch_statistics, accumulate);
  });
}

[[maybe_unused]] const bool registered =
    batch_norm.set(DeviceType::cpu, batch_norm_cpu) &&
    batch_norm_inference.set(DeviceType::cpu, batch_norm_inference_cpu) &&
    batch_norm_backward.set(DeviceType::cpu, batch_norm_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
