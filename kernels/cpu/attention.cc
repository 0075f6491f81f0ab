// Attention forward: blocks of queries against blocks of keys with a running maximum and sum for
// each query; scores stay in the cache. Blocks that no query sees are skipped.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/attention_blocks.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels {
namespace {

using namespace cpu;

// Keys and values of one group, and the state of one block of queries.
template <class C>
class Forward {
 public:
  Forward(const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
          Tensor& out, Tensor& log_sum_exp)
      : shape_(shape),
        q_(q),
        k_(k),
        v_(v),
        out_(out),
        log_sum_exp_(log_sum_exp.data<C>()),
        columns_(round_up(shape.width, kLanes<C>)),
        keys_(round_up(shape.keys, kKeyBlock)),
        keys_transposed_(shape.width * keys_),
        values_(keys_ * columns_),
        queries_(kQueryBlock * columns_),
        scores_(kQueryBlock * kKeyBlock),
        sums_(kQueryBlock * columns_) {}

  void group(int64_t batch, int64_t group) {
    HeadRows(k_, batch, group).load_transposed(shape_.keys, keys_, keys_transposed_.get());
    HeadRows(v_, batch, group).load(0, shape_.keys, keys_, columns_, values_.get());
    const int64_t count = shape_.heads_per_group();
    for (int64_t head = group * count; head < (group + 1) * count; ++head) {
      for (int64_t first = 0; first < shape_.queries; first += kQueryBlock) {
        query_block(batch, head, first);
      }
    }
  }

 private:
  void query_block(int64_t batch, int64_t head, int64_t first) {
    const int64_t end = std::min(first + kQueryBlock, shape_.queries);
    const int64_t rows = round_up(end - first, kBlockRows);
    HeadRows(q_, batch, head)
        .load(first, end, rows, columns_, queries_.get(), static_cast<C>(shape_.scale));
    std::fill_n(sums_.get(), rows * columns_, C(0));
    std::fill_n(peaks_, rows, -std::numeric_limits<C>::infinity());
    std::fill_n(totals_, rows, C(0));
    for (int64_t key = 0; key < shape_.seen(end - 1); key += kKeyBlock) {
      multiply_seen(shape_, first, rows, key, queries_.get(), columns_, keys_transposed_.get(),
                    keys_, shape_.width, scores_.get());
      for (int64_t row = 0; row < rows; ++row) weigh(row, shape_.seen_of(first + row, key));
      add_seen(shape_, first, rows, key, scores_.get(), values_.get() + key * columns_, columns_,
               sums_.get());
    }
    C* const log_sums = log_sum_exp_ + (batch * shape_.heads + head) * shape_.queries;
    for (int64_t row = 0; row < end - first; ++row) {
      log_sums[first + row] = peaks_[row] + math::log(totals_[row]);
      const C factor = 1 / totals_[row];
      C* const sums = sums_.get() + row * columns_;
      for (int64_t i = 0; i < shape_.width; ++i) sums[i] *= factor;
    }
    HeadRows(out_, batch, head).store(first, end, columns_, sums_.get());
  }

  // Scores of a query become weights, relative to its running maximum.
  void weigh(int64_t row, int64_t seen) {
    C* const scores = scores_.get() + row * kKeyBlock;
    if (seen > 0) {
      const C peak = std::max(peaks_[row], row_max(scores, seen));
      const C shift = exp_shift(peak);
      if (peak > peaks_[row] && totals_[row] != 0) {
        const C factor = math::exp_not_positive(peaks_[row] - shift);
        totals_[row] *= factor;
        C* const sums = sums_.get() + row * columns_;
        for (int64_t i = 0; i < columns_; ++i) sums[i] *= factor;
      }
      peaks_[row] = peak;
      totals_[row] += row_exp(scores, scores, seen, shift);
    }
    std::fill(scores + seen, scores + kKeyBlock, C(0));
  }

  const AttentionShape& shape_;
  const Tensor &q_, &k_, &v_, &out_;
  C* const log_sum_exp_;
  const int64_t columns_;  // of a head, padded
  const int64_t keys_;     // padded
  BlockBuffer<C> keys_transposed_, values_, queries_, scores_, sums_;
  C peaks_[kQueryBlock];
  C totals_[kQueryBlock];
};

void attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out,
                   Tensor& log_sum_exp, const AttentionParams& params) {
  if (q.numel() == 0) return;
  const AttentionShape shape(q, k, params);
  dispatch_types<float, double>(compute_dtype(q.dtype()), "attention", [&]<class C>() {
    parallel_for(shape.batch * shape.groups, static_cast<int64_t>(shape.flops() / 16),
                 [&](int64_t begin, int64_t end) {
                   Forward<C> forward(shape, q, k, v, out, log_sum_exp);
                   for (int64_t i = begin; i < end; ++i) {
                     forward.group(i / shape.groups, i % shape.groups);
                   }
                 });
  });
}

[[maybe_unused]] const bool registered = attention.set(DeviceType::cpu, attention_cpu);

}  // namespace
}  // namespace tenon::kernels
