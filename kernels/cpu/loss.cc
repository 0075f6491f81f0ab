// Fused cross-entropy: one pass over the logits forward, one backward; no matrix of probabilities.
// The negative log-likelihood reads one element a row.
#include "tenon/kernels/loss.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;
using cpu::kChunk;
using cpu::LogSumExp;

constexpr uint32_t kColumns = 2;  // the axis mask of a row

int64_t target_at(const Tensor& targets, int64_t row) {
  const int64_t at = row * targets.strides()[0];
  return targets.dtype() == DType::i32 ? targets.data<int32_t>()[at] : targets.data<int64_t>()[at];
}

// The targets as i64, each checked; counts the rows that are not ignored.
struct Targets {
  Targets(const char* op, const Tensor& targets, int64_t classes,
          std::optional<int64_t> ignore_index) {
    rows.resize(static_cast<size_t>(targets.numel()));
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = target_at(targets, static_cast<int64_t>(i));
      if (rows[i] == ignore_index) {
        rows[i] = -1;
        continue;
      }
      TENON_CHECK(rows[i] >= 0 && rows[i] < classes, op, "target out of range: given ", rows[i],
                  " in row ", i, ", wanted 0 to ", classes - 1,
                  ignore_index ? str(" or ignore_index ", *ignore_index) : "");
      ++counted;
    }
  }
  std::vector<int64_t> rows;  // -1 where ignored
  int64_t counted = 0;
};

struct RowSums {
  double log_sum_exp = 0;
  double sum = 0;
};

template <class C>
RowSums sums_of_row(const ChunkOperand<C>& logits, int64_t shift, int64_t classes, bool with_sum) {
  alignas(64) C buffer[kChunk];
  LogSumExp<C> exps;
  RowSums result;
  for (int64_t column = 0; column < classes; column += kChunk) {
    const int64_t n = std::min(kChunk, classes - column);
    const C* x = logits.load(column, n, buffer, shift);
    exps.add(x, n);
    if (with_sum) result.sum += static_cast<double>(cpu::row_sum(x, n));
  }
  result.log_sum_exp = exps.value();
  return result;
}

template <class C>
void forward(const Tensor& logits, const Tensor& targets, Tensor& loss, Tensor& log_sum_exp,
             Tensor& weight, const CrossEntropyParams& params) {
  const int64_t count = logits.dim(0);
  const int64_t classes = logits.dim(1);
  const Targets wanted("cross_entropy", targets, classes, params.ignore_index);
  std::vector<double> losses(static_cast<size_t>(count));
  const double smoothing = params.label_smoothing;
  if (logits.numel() > 0) {
    const LoopPlan plan = LoopPlan::over(kColumns, {&logits});
    const ChunkOperand<C> operand(plan, 0, logits);
    C* const lse = log_sum_exp.data<C>();
    const int64_t bytes = static_cast<int64_t>(logits.nbytes()) * 4;
    parallel_for(count, bytes, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t shift = row * logits.strides()[0];
        const RowSums sums = sums_of_row(operand, shift, classes, smoothing != 0);
        lse[row] = static_cast<C>(sums.log_sum_exp);
        const int64_t target = wanted.rows[static_cast<size_t>(row)];
        if (target < 0) continue;
        C logit;
        logit = *operand.load(target, 1, &logit, shift);
        double value = sums.log_sum_exp - (1 - smoothing) * static_cast<double>(logit);
        if (smoothing != 0) value -= smoothing / static_cast<double>(classes) * sums.sum;
        value += params.z_loss * sums.log_sum_exp * sums.log_sum_exp;
        losses[static_cast<size_t>(row)] = value;
      }
    });
  }
  double total = 0;
  for (const double value : losses) total += value;
  const double divisor = params.divisor != 0 ? params.divisor : static_cast<double>(wanted.counted);
  const double factor = divisor != 0 ? 1 / divisor : 0;
  *loss.data<C>() = static_cast<C>(divisor != 0 ? total / divisor : 0);
  *weight.data<C>() = static_cast<C>(factor);
}

template <class C>
void backward(const Tensor& logits, const Tensor& targets, const Tensor& log_sum_exp,
              const Tensor& weight, const Tensor& dloss, Tensor& dlogits,
              const CrossEntropyParams& params) {
  const int64_t classes = logits.dim(1);
  const Targets wanted("cross_entropy_backward", targets, classes, params.ignore_index);
  const LoopPlan plan = LoopPlan::over(kColumns, {&logits, &dlogits});
  const ChunkOperand<C> rows(plan, 0, logits);
  const ChunkOperand<C> grads(plan, 1, dlogits);
  const C* const lse = log_sum_exp.data<C>();
  const C factor = static_cast<C>(weight.item<double>() * dloss.item<double>());
  const C on_target = static_cast<C>((1 - params.label_smoothing)) * factor;
  const C everywhere =
      static_cast<C>(params.label_smoothing / static_cast<double>(classes)) * factor;
  const int64_t bytes = static_cast<int64_t>(logits.nbytes()) * 4;
  parallel_for(logits.dim(0), bytes, [&](int64_t begin, int64_t end) {
    alignas(64) C in_buffer[kChunk];
    alignas(64) C out_buffer[kChunk];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t target = wanted.rows[static_cast<size_t>(row)];
      for (int64_t column = 0; column < classes; column += kChunk) {
        const int64_t n = std::min(kChunk, classes - column);
        const int64_t shift = row * dlogits.strides()[0];
        C* const out = grads.target(column, n, out_buffer, shift);
        if (target < 0) {
          std::fill_n(out, n, C(0));
        } else {
          const C* x = rows.load(column, n, in_buffer, row * logits.strides()[0]);
          const C normal = lse[row];
          const C scale = factor * (1 + static_cast<C>(2 * params.z_loss) * normal);
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i)
            out[i] = scale * cpu::exp_not_positive(x[i] - normal) - everywhere;
          if (target >= column && target < column + n) out[target - column] -= on_target;
        }
        grads.store(column, n, out, out_buffer, shift);
      }
    }
  });
}

void cross_entropy_cpu(const Tensor& logits, const Tensor& targets, Tensor& loss,
                       Tensor& log_sum_exp, Tensor& weight, const CrossEntropyParams& params) {
  dispatch_types<float, double>(compute_dtype(logits.dtype()), "cross_entropy", [&]<class C>() {
    forward<C>(logits, targets, loss, log_sum_exp, weight, params);
  });
}

void cross_entropy_backward_cpu(const Tensor& logits, const Tensor& targets,
                                const Tensor& log_sum_exp, const Tensor& weight,
                                const Tensor& dloss, Tensor& dlogits,
                                const CrossEntropyParams& params) {
  if (logits.numel() == 0) return;
  dispatch_types<float, double>(
      compute_dtype(logits.dtype()), "cross_entropy_backward", [&]<class C>() {
        backward<C>(logits, targets, log_sum_exp, weight, dloss, dlogits, params);
      });
}

void nll_loss_cpu(const Tensor& log_probabilities, const Tensor& targets, Tensor& loss) {
  const Targets wanted("nll_loss", targets, log_probabilities.dim(1), std::nullopt);
  const Strides& strides = log_probabilities.strides();
  double total = 0;
  dispatch_floating(log_probabilities.dtype(), "nll_loss", [&]<class T>() {
    const T* const data = log_probabilities.data<T>();
    for (size_t i = 0; i < wanted.rows.size(); ++i) {
      total -= static_cast<double>(static_cast<Compute<T>>(
          data[static_cast<int64_t>(i) * strides[0] + wanted.rows[i] * strides[1]]));
    }
    const auto rows = static_cast<double>(wanted.rows.size());
    *loss.data<Compute<T>>() = static_cast<Compute<T>>(rows > 0 ? total / rows : 0);
  });
}

void nll_loss_backward_cpu(const Tensor& targets, const Tensor& dloss, Tensor& dlog_probabilities) {
  const Targets wanted("nll_loss_backward", targets, dlog_probabilities.dim(1), std::nullopt);
  fill(DeviceType::cpu, dlog_probabilities, 0.0);
  const Strides& strides = dlog_probabilities.strides();
  const double value = -dloss.item<double>() / static_cast<double>(wanted.rows.size());
  dispatch_floating(dlog_probabilities.dtype(), "nll_loss_backward", [&]<class T>() {
    T* const data = dlog_probabilities.data<T>();
    for (size_t i = 0; i < wanted.rows.size(); ++i) {
      data[static_cast<int64_t>(i) * strides[0] + wanted.rows[i] * strides[1]] =
          static_cast<T>(static_cast<Compute<T>>(value));
    }
  });
}

[[maybe_unused]] const bool registered =
    cross_entropy.set(DeviceType::cpu, cross_entropy_cpu) &&
    cross_entropy_backward.set(DeviceType::cpu, cross_entropy_backward_cpu) &&
    nll_loss.set(DeviceType::cpu, nll_loss_cpu) &&
    nll_loss_backward.set(DeviceType::cpu, nll_loss_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
