// Layer norm and RMSNorm over contiguous rows. A row stays in the L1 cache, so mean, variance and
// result are separate passes over it.
#include <algorithm>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/cpu/norm_parameters.h"
#include "tenon/kernels/cpu/row_math.h"
#include "tenon/kernels/norm.h"

namespace tenon::kernels {
namespace {

using cpu::kChunk;

constexpr int64_t kBlocks = 64;     // of rows, at most, for the gradients of gamma and beta
constexpr int64_t kBlockRows = 16;  // at least

// A matrix of rows, each as a dense array of C.
template <class C>
class Rows {
 public:
  explicit Rows(const Tensor& matrix)
      : data_(matrix.raw_data()),
        dtype_(matrix.dtype()),
        width_(matrix.dim(1)),
        buffer_(dtype_ == dtype_of<C> ? 0 : static_cast<size_t>(width_)),
        load_(cpu::row_converter(dtype_, dtype_of<C>)),
        store_(cpu::row_converter(dtype_of<C>, dtype_)) {}

  // Where to write row `row`.
  C* target(int64_t row) {
    if (buffer_.empty()) return static_cast<C*>(data_) + row * width_;
    return buffer_.data();
  }
  C* load(int64_t row) {
    if (!buffer_.empty()) load_(at(row), 1, buffer_.data(), 1, width_);
    return target(row);
  }
  void store(int64_t row) {
    if (!buffer_.empty()) store_(buffer_.data(), 1, at(row), 1, width_);
  }

 private:
  void* at(int64_t row) const { return cpu::at_element(data_, dtype_, row * width_); }

  void* data_;
  DType dtype_;
  int64_t width_;
  std::vector<C> buffer_;
  cpu::RowConverter load_;
  cpu::RowConverter store_;
};

// Sum over a row of any length of part(begin, n), in f64.
template <class Part>
double in_parts(int64_t width, const Part& part) {
  double sum = 0;
  for (int64_t begin = 0; begin < width; begin += kChunk) {
    sum += static_cast<double>(part(begin, std::min(kChunk, width - begin)));
  }
  return sum;
}

template <class C>
C mean_of_row(const C* values, int64_t width) {
  const double total =
      in_parts(width, [&](int64_t at, int64_t n) { return cpu::row_sum(values + at, n); });
  return static_cast<C>(total / static_cast<double>(width));
}

// `mean` is null for RMSNorm, which takes 0 for it.
template <class C>
void forward(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y, Tensor* mean,
             Tensor& rstd, double eps) {
  const int64_t width = x.dim(1);
  const std::vector<C> scales = cpu::parameter_values<C>(gamma, width, 1);
  const std::vector<C> offsets = cpu::parameter_values<C>(beta, width, 0);
  C* const means = mean == nullptr ? nullptr : mean->data<C>();
  C* const rstds = rstd.data<C>();
  parallel_for(x.dim(0), static_cast<int64_t>(x.nbytes() + y.nbytes()),
               [&](int64_t begin, int64_t end) {
                 Rows<C> in(x);
                 Rows<C> out(y);
                 const C* scale = scales.data();
                 const C* offset = offsets.data();
                 for (int64_t row = begin; row < end; ++row) {
                   const C* values = in.load(row);
                   const C center = means == nullptr ? C(0) : mean_of_row(values, width);
                   const double squares = in_parts(width, [&](int64_t at, int64_t n) {
                     return cpu::row_square_deviation(values + at, n, center);
                   });
                   const C factor =
                       static_cast<C>(1 / math::sqrt(squares / static_cast<double>(width) + eps));
                   C* const result = out.target(row);
#pragma GCC ivdep
                   for (int64_t i = 0; i < width; ++i) {
                     result[i] = (values[i] - center) * factor * scale[i] + offset[i];
                   }
                   out.store(row);
                   if (means != nullptr) means[row] = center;
                   rstds[row] = factor;
                 }
               });
}

// What backward of one thread works on.
template <class C>
struct Backward {
  const Tensor& x;
  const Tensor& dy;
  Tensor* dx;
  int64_t width;
  const std::vector<C>& scales;
  const C* means;  // null for RMSNorm
  const C* rstds;
  bool accumulate;  // dx

  // Rows [begin, end); their parts of the gradients of gamma and beta are added to the sums.
  void rows(int64_t begin, int64_t end, C* gamma_sum, C* beta_sum) const {
    Rows<C> in(x);
    Rows<C> grads(dy);
    Rows<C> out(dx == nullptr ? dy : *dx);
    std::vector<C> normalized_row(static_cast<size_t>(width));
    std::vector<C> scaled_row(static_cast<size_t>(width));
    C* const normalized = normalized_row.data();
    C* const scaled = scaled_row.data();
    const C* scale = scales.data();
    for (int64_t row = begin; row < end; ++row) {
      const C* values = in.load(row);
      const C* grad = grads.load(row);
      const C center = means == nullptr ? C(0) : means[row];
      const C factor = rstds[row];
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) {
        const C unit = (values[i] - center) * factor;
        normalized[i] = unit;
        scaled[i] = grad[i] * scale[i];
        gamma_sum[i] += grad[i] * unit;
        beta_sum[i] += grad[i];
      }
      if (dx == nullptr) continue;
      input_gradient(normalized, scaled, factor, accumulate ? out.load(row) : out.target(row));
      out.store(row);
    }
  }
  void input_gradient(const C* normalized, const C* scaled, C factor, C* result) const {
    const double dot = in_parts(width, [&](int64_t at, int64_t n) {
      return cpu::row_dot(scaled + at, normalized + at, n);
    });
    const C mean_scaled = means == nullptr ? C(0) : mean_of_row(scaled, width);
    const C mean_dot = static_cast<C>(dot / static_cast<double>(width));
    const auto gradient = [=](int64_t i) {
      return factor * (scaled[i] - mean_scaled - normalized[i] * mean_dot);
    };
    if (accumulate) {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) result[i] += gradient(i);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) result[i] = gradient(i);
    }
  }
};

template <class C>
void backward(const Tensor& x, const Tensor* gamma, const Tensor* mean, const Tensor& rstd,
              const Tensor& dy, Tensor* dx, Tensor* dgamma, Tensor* dbeta,
              NormAccumulate accumulate) {
  const int64_t count = x.dim(0);
  const int64_t width = x.dim(1);
  // Blocks depend on the shape alone, so that the sums do not depend on the number of threads.
  const int64_t block_rows = std::max(kBlockRows, (count + kBlocks - 1) / kBlocks);
  const int64_t blocks = (count + block_rows - 1) / block_rows;
  std::vector<C> sums(static_cast<size_t>(2 * blocks * width));
  const std::vector<C> scales = cpu::parameter_values<C>(gamma, width, 1);
  if (x.numel() > 0) {
    const Backward<C> job{x,
                          dy,
                          dx,
                          width,
                          scales,
                          mean == nullptr ? nullptr : mean->data<C>(),
                          rstd.data<C>(),
                          accumulate.input};
    const int64_t bytes = 3 * static_cast<int64_t>(x.nbytes());
    parallel_for(blocks, bytes, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        C* const sum = sums.data() + 2 * block * width;
        job.rows(block * block_rows, std::min((block + 1) * block_rows, count), sum, sum + width);
      }
    });
  }
  std::vector<double> totals[2];
  for (int64_t which : {0, 1}) {
    std::vector<double>& total = totals[which];
    total.resize(static_cast<size_t>(width));
    for (int64_t block = 0; block < blocks; ++block) {
      const C* sum = sums.data() + (2 * block + which) * width;
      for (size_t i = 0; i < total.size(); ++i) total[i] += static_cast<double>(sum[i]);
    }
  }
  cpu::write_gradient(totals[0], dgamma, accumulate.parameters);
  cpu::write_gradient(totals[1], dbeta, accumulate.parameters);
}

void layer_norm_cpu(const Tensor& x, const Tensor* gamma, const Tensor* beta, Tensor& y,
                    Tensor& mean, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  dispatch_types<float, double>(compute_dtype(x.dtype()), "layer_norm", [&]<class C>() {
    forward<C>(x, gamma, beta, y, &mean, rstd, eps);
  });
}

void layer_norm_backward_cpu(const Tensor& x, const Tensor* gamma, const Tensor& mean,
                             const Tensor& rstd, const Tensor& dy, Tensor* dx, Tensor* dgamma,
                             Tensor* dbeta, NormAccumulate accumulate) {
  dispatch_types<float, double>(compute_dtype(x.dtype()), "layer_norm_backward", [&]<class C>() {
    backward<C>(x, gamma, &mean, rstd, dy, dx, dgamma, dbeta, accumulate);
  });
}

void rms_norm_cpu(const Tensor& x, const Tensor* gamma, Tensor& y, Tensor& rstd, double eps) {
  if (x.numel() == 0) return;
  dispatch_types<float, double>(compute_dtype(x.dtype()), "rms_norm", [&]<class C>() {
    forward<C>(x, gamma, nullptr, y, nullptr, rstd, eps);
  });
}

void rms_norm_backward_cpu(const Tensor& x, const Tensor* gamma, const Tensor& rstd,
                           const Tensor& dy, Tensor* dx, Tensor* dgamma,
                           NormAccumulate accumulate) {
  dispatch_types<float, double>(compute_dtype(x.dtype()), "rms_norm_backward", [&]<class C>() {
    backward<C>(x, gamma, nullptr, rstd, dy, dx, dgamma, nullptr, accumulate);
  });
}

[[maybe_unused]] const bool registered =
    layer_norm.set(DeviceType::cpu, layer_norm_cpu) &&
    layer_norm_backward.set(DeviceType::cpu, layer_norm_backward_cpu) &&
    rms_norm.set(DeviceType::cpu, rms_norm_cpu) &&
    rms_norm_backward.set(DeviceType::cpu, rms_norm_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
