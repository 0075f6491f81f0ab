// Fused cross-entropy: one pass over the logits forward, one backward; no matrix of probabilities.
#include "tenon/kernels/loss.h"

#include <algorithm>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels {
namespace {

using cpu::kChunk;

int64_t target_at(const Tensor& targets, int64_t row) {
  const int64_t at = row * targets.strides()[0];
  return targets.dtype() == DType::i32 ? targets.data<int32_t>()[at] : targets.data<int64_t>()[at];
}

// The targets as i64, each checked; counts the rows that are not ignored.
struct Targets {
  Targets(const char* op, const Tensor& targets, int64_t classes, int64_t ignore_index) {
    rows.resize(static_cast<size_t>(targets.numel()));
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = target_at(targets, static_cast<int64_t>(i));
      if (rows[i] == ignore_index) {
        rows[i] = -1;
        continue;
      }
      TENON_CHECK(rows[i] >= 0 && rows[i] < classes, op, "target out of range: given ", rows[i],
                  " in row ", i, ", wanted 0 to ", classes - 1, " or ignore_index ", ignore_index);
      ++counted;
    }
  }
  std::vector<int64_t> rows;  // -1 where ignored
  int64_t counted = 0;
};

// A matrix row by row, in chunks of its compute type.
template <class C>
class Rows {
 public:
  explicit Rows(const Tensor& matrix)
      : matrix_(matrix),
        dtype_(matrix.dtype()),
        data_(matrix.raw_data()),
        load_(cpu::row_converter(dtype_, dtype_of<C>)),
        store_(cpu::row_converter(dtype_of<C>, dtype_)) {}

  bool direct() const { return dtype_ == dtype_of<C> && matrix_.strides()[1] == 1; }
  const C* load(int64_t row, int64_t column, int64_t n, C* buffer) const {
    if (direct()) return static_cast<const C*>(at(row, column));
    load_(at(row, column), matrix_.strides()[1], buffer, 1, n);
    return buffer;
  }
  C* target(int64_t row, int64_t column, C* buffer) const {
    return direct() ? static_cast<C*>(at(row, column)) : buffer;
  }
  void store(int64_t row, int64_t column, int64_t n, const C* buffer) const {
    if (!direct()) store_(buffer, 1, at(row, column), matrix_.strides()[1], n);
  }
  C element(int64_t row, int64_t column) const {
    C value;
    load_(at(row, column), 1, &value, 1, 1);
    return value;
  }

 private:
  void* at(int64_t row, int64_t column) const {
    return cpu::at_element(data_, dtype_,
                           row * matrix_.strides()[0] + column * matrix_.strides()[1]);
  }
  const Tensor& matrix_;
  const DType dtype_;
  void* const data_;
  const cpu::RowConverter load_;
  const cpu::RowConverter store_;
};

struct RowSums {
  double log_sum_exp = 0;
  double sum = 0;
};

// Chunk by chunk with a running maximum, so that each chunk is read while it is in the cache.
template <class C>
RowSums sums_of_row(const Rows<C>& logits, int64_t row, int64_t classes, bool with_sum) {
  alignas(64) C buffer[kChunk];
  C most = -std::numeric_limits<C>::infinity();
  double exps = 0;
  RowSums result;
  for (int64_t column = 0; column < classes; column += kChunk) {
    const int64_t n = std::min(kChunk, classes - column);
    const C* x = logits.load(row, column, n, buffer);
    const C chunk_most = cpu::row_max(x, n);
    if (chunk_most > most) {
      exps *= static_cast<double>(math::exp(most - chunk_most));
      most = chunk_most;
    }
    exps += static_cast<double>(cpu::row_exp_sum(x, n, most));
    if (with_sum) result.sum += static_cast<double>(cpu::row_sum(x, n));
  }
  result.log_sum_exp = static_cast<double>(most) + math::log(exps);
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
    const Rows<C> rows(logits);
    C* const lse = log_sum_exp.data<C>();
    const int64_t bytes = static_cast<int64_t>(logits.nbytes()) * 4;
    parallel_for(count, bytes, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const RowSums sums = sums_of_row(rows, row, classes, smoothing != 0);
        lse[row] = static_cast<C>(sums.log_sum_exp);
        const int64_t target = wanted.rows[static_cast<size_t>(row)];
        if (target < 0) continue;
        double value =
            sums.log_sum_exp - (1 - smoothing) * static_cast<double>(rows.element(row, target));
        if (smoothing != 0) value -= smoothing / static_cast<double>(classes) * sums.sum;
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
  const Rows<C> rows(logits);
  const Rows<C> grads(dlogits);
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
        C* const out = grads.target(row, column, out_buffer);
        if (target < 0) {
          std::fill_n(out, n, C(0));
        } else {
          const C* x = rows.load(row, column, n, in_buffer);
          const C shift = lse[row];
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = factor * math::exp(x[i] - shift) - everywhere;
          if (target >= column && target < column + n) out[target - column] -= on_target;
        }
        grads.store(row, column, n, out_buffer);
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

[[maybe_unused]] const bool registered =
    cross_entropy.set(DeviceType::cpu, cross_entropy_cpu) &&
    cross_entropy_backward.set(DeviceType::cpu, cross_entropy_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
