// Softmax and log-softmax. Where the elements of a row lie closest in memory a row is handled as a
// whole, unless it is short; elsewhere neighbouring rows side by side.
#include "tenon/kernels/softmax.h"

#include <algorithm>
#include <array>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;
using cpu::kChunk;

constexpr int64_t kColumns = 128;  // rows handled side by side

// The operands of one call: `rows` walks the rows, `along` one row.
struct Job {
  Job(std::initializer_list<const Tensor*> operands, int axis)
      : rows(LoopPlan::over(~(1u << axis), operands)),
        along(LoopPlan::over(1u << axis, operands)),
        length(along.count) {
    const Tensor& first = **operands.begin();
    const bool close = first.strides()[axis] <= rows.inner_stride(0) && length >= 32;
    by_rows = rows.count < 8 || close;
    for (const Tensor* operand : operands) {
      bytes += 4 * static_cast<int64_t>(operand->nbytes());  // an exp costs more than its bytes
    }
  }
  LoopPlan rows;
  LoopPlan along;
  int64_t length;
  bool by_rows;
  int64_t bytes = 0;
};

template <class C, bool log>
void forward_row(const ChunkOperand<C>& x, const ChunkOperand<C>& y, int64_t length,
                 int64_t x_shift, int64_t y_shift) {
  alignas(64) C in_buffer[kChunk];
  alignas(64) C out_buffer[kChunk];
  if (!log && length <= kChunk) {
    const C* in = x.load(0, length, in_buffer, x_shift);
    C* const out = y.target(0, length, out_buffer, y_shift);
    const C sum = cpu::row_exp(in, out, length, cpu::exp_shift(cpu::row_max(in, length)));
    const C factor = C(1) / sum;
    for (int64_t i = 0; i < length; ++i) out[i] *= factor;
    y.store(0, length, out, out_buffer, y_shift);
    return;
  }
  cpu::LogSumExp<C> exps;
  for (int64_t at = 0; at < length; at += kChunk) {
    const int64_t n = std::min(kChunk, length - at);
    exps.add(x.load(at, n, in_buffer, x_shift), n);
  }
  const C shift = exps.shift();
  const C rest = static_cast<C>(log ? math::log(exps.sum()) : 1 / exps.sum());
  for (int64_t at = 0; at < length; at += kChunk) {
    const int64_t n = std::min(kChunk, length - at);
    const C* in = x.load(at, n, in_buffer, x_shift);
    C* const out = y.target(at, n, out_buffer, y_shift);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      out[i] = log ? (in[i] - shift) - rest : cpu::exp_not_positive(in[i] - shift) * rest;
    }
    y.store(at, n, out, out_buffer, y_shift);
  }
}

template <class C, bool log>
void forward_columns(const Job& job, const Tensor& x, const Tensor& y, int64_t begin, int64_t n) {
  const ChunkOperand<C> in(job.rows, 0, x);
  const ChunkOperand<C> out(job.rows, 1, y);
  alignas(64) C buffer[kColumns];
  alignas(64) C out_buffer[kColumns];
  std::array<C, kColumns> shift;
  std::array<double, kColumns> sum{};
  const int64_t x_stride = job.along.inner_stride(0);
  const int64_t y_stride = job.along.inner_stride(1);
  shift.fill(-std::numeric_limits<C>::infinity());
  for (int64_t at = 0; at < job.length; ++at) {
    const C* values = in.load(begin, n, buffer, at * x_stride);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      shift[i] = values[i] > shift[i] ? values[i] : shift[i];
    }
  }
  for (C& value : shift) value = cpu::exp_shift(value);
  for (int64_t at = 0; at < job.length; ++at) {
    const C* values = in.load(begin, n, buffer, at * x_stride);
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      sum[i] += static_cast<double>(cpu::exp_not_positive(values[i] - shift[i]));
    }
  }
  std::array<C, kColumns> rest;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    rest[i] = static_cast<C>(log ? math::log(sum[i]) : 1 / sum[i]);
  }
  for (int64_t at = 0; at < job.length; ++at) {
    const C* values = in.load(begin, n, buffer, at * x_stride);
    C* const result = out.target(begin, n, out_buffer, at * y_stride);
#pragma GCC ivdep
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const C value = values[i] - shift[i];
      result[i] = log ? value - rest[i] : cpu::exp_not_positive(value) * rest[i];
    }
    out.store(begin, n, result, out_buffer, at * y_stride);
  }
}

// dx of one element, given sum(y dy) for softmax and sum(dy) for log-softmax. Loops over it
// vectorise only when it is inlined.
template <class C, bool log>
[[gnu::always_inline]] inline C derivative(C y, C dy, C sum) {
  return log ? dy - cpu::exp_not_positive(y) * sum : y * (dy - sum);
}

template <class C, bool log>
void backward_row(const Job& job, const std::array<ChunkOperand<C>, 3>& operands,
                  const std::array<int64_t, 3>& shifts) {
  const auto& [y, dy, dx] = operands;
  alignas(64) C y_buffer[kChunk];
  alignas(64) C dy_buffer[kChunk];
  alignas(64) C dx_buffer[kChunk];
  double total = 0;
  for (int64_t at = 0; at < job.length; at += kChunk) {
    const int64_t n = std::min(kChunk, job.length - at);
    const C* grad = dy.load(at, n, dy_buffer, shifts[1]);
    total += static_cast<double>(log ? cpu::row_sum(grad, n)
                                     : cpu::row_dot(y.load(at, n, y_buffer, shifts[0]), grad, n));
  }
  const C sum = static_cast<C>(total);
  for (int64_t at = 0; at < job.length; at += kChunk) {
    const int64_t n = std::min(kChunk, job.length - at);
    const C* value = y.load(at, n, y_buffer, shifts[0]);
    const C* grad = dy.load(at, n, dy_buffer, shifts[1]);
    C* const out = dx.target(at, n, dx_buffer, shifts[2]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = derivative<C, log>(value[i], grad[i], sum);
    dx.store(at, n, out, dx_buffer, shifts[2]);
  }
}

template <class C, bool log>
void backward_columns(const Job& job, const std::array<ChunkOperand<C>, 3>& operands, int64_t begin,
                      int64_t n) {
  const auto& [y, dy, dx] = operands;
  const auto shift = [&](int operand, int64_t at) { return at * job.along.inner_stride(operand); };
  alignas(64) C y_buffer[kColumns];
  alignas(64) C dy_buffer[kColumns];
  alignas(64) C dx_buffer[kColumns];
  std::array<double, kColumns> sum{};
  for (int64_t at = 0; at < job.length; ++at) {
    const C* value = y.load(begin, n, y_buffer, shift(0, at));
    const C* grad = dy.load(begin, n, dy_buffer, shift(1, at));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      sum[i] += static_cast<double>(log ? grad[i] : value[i] * grad[i]);
    }
  }
  for (int64_t at = 0; at < job.length; ++at) {
    const C* value = y.load(begin, n, y_buffer, shift(0, at));
    const C* grad = dy.load(begin, n, dy_buffer, shift(1, at));
    C* const out = dx.target(begin, n, dx_buffer, shift(2, at));
#pragma GCC ivdep
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      out[i] = derivative<C, log>(value[i], grad[i], static_cast<C>(sum[i]));
    }
    dx.store(begin, n, out, dx_buffer, shift(2, at));
  }
}

template <bool log>
void forward(const Tensor& x, Tensor& y, int axis) {
  if (x.numel() == 0) return;
  const Job job({&x, &y}, axis);
  dispatch_types<float, double>(compute_dtype(x.dtype()), "softmax", [&]<class C>() {
    parallel_for(
        job.rows.count, job.bytes,
        [&](int64_t begin, int64_t end) {
          if (!job.by_rows) {
            for (int64_t n = 0; begin < end; begin += n) {
              n = std::min(kColumns, end - begin);
              forward_columns<C, log>(job, x, y, begin, n);
            }
            return;
          }
          const ChunkOperand<C> in(job.along, 0, x);
          const ChunkOperand<C> out(job.along, 1, y);
          LoopCursor cursor(job.rows, begin);
          for (; begin < end; ++begin, cursor.advance(1)) {
            forward_row<C, log>(in, out, job.length, cursor.offset(0), cursor.offset(1));
          }
        },
        job.by_rows ? 1 : kColumns);
  });
}

template <bool log>
void backward(const Tensor& y, const Tensor& dy, Tensor& dx, int axis) {
  if (dx.numel() == 0) return;
  const Job job({&y, &dy, &dx}, axis);
  const LoopPlan& plan = job.by_rows ? job.along : job.rows;
  dispatch_types<float, double>(compute_dtype(dx.dtype()), "softmax_backward", [&]<class C>() {
    const std::array<ChunkOperand<C>, 3> operands{
        ChunkOperand<C>(plan, 0, y), ChunkOperand<C>(plan, 1, dy), ChunkOperand<C>(plan, 2, dx)};
    parallel_for(
        job.rows.count, job.bytes,
        [&](int64_t begin, int64_t end) {
          if (!job.by_rows) {
            for (int64_t n = 0; begin < end; begin += n) {
              n = std::min(kColumns, end - begin);
              backward_columns<C, log>(job, operands, begin, n);
            }
            return;
          }
          LoopCursor cursor(job.rows, begin);
          for (; begin < end; ++begin, cursor.advance(1)) {
            backward_row<C, log>(job, operands,
                                 {cursor.offset(0), cursor.offset(1), cursor.offset(2)});
          }
        },
        job.by_rows ? 1 : kColumns);
  });
}

[[maybe_unused]] const bool registered = softmax.set(DeviceType::cpu, forward<false>) &&
                                         softmax_backward.set(DeviceType::cpu, backward<false>) &&
                                         log_softmax.set(DeviceType::cpu, forward<true>) &&
                                         log_softmax_backward.set(DeviceType::cpu, backward<true>);

}  // namespace
}  // namespace tenon::kernels
