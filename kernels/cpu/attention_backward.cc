// Attention backward: weights are computed again from the scores and each query's log-sum-exp. One
// thread has all queries of a group of heads, so that gradients of keys and values are sums in a
// fixed order.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/attention_blocks.h"
#include "tenon/kernels/cpu/row_math.h"

namespace tenon::kernels {
namespace {

using namespace cpu;

struct Operands {
  const Tensor &q, &k, &v, &out, &log_sum_exp, &dout;
  Tensor &dq, &dk, &dv;
};

template <class C>
class Backward {
 public:
  Backward(const AttentionShape& shape, const Operands& operands)
      : shape_(shape),
        given_(operands),
        columns_(round_up(shape.width, kLanes<C>)),
        keys_(round_up(shape.keys, kKeyBlock)),
        keys_transposed_(shape.width * keys_),
        values_transposed_(shape.width * keys_),
        key_rows_(keys_ * columns_),
        key_sums_(keys_ * columns_),
        value_sums_(keys_ * columns_),
        queries_(kQueryBlock * columns_),
        grads_(kQueryBlock * columns_),
        query_sums_(kQueryBlock * columns_),
        weights_(kQueryBlock * kKeyBlock),
        slopes_(kQueryBlock * kKeyBlock) {}

  void group(int64_t batch, int64_t group) {
    const HeadRows keys(given_.k, batch, group);
    keys.load_transposed(shape_.keys, keys_, keys_transposed_.get());
    keys.load(0, shape_.keys, keys_, columns_, key_rows_.get());
    HeadRows(given_.v, batch, group).load_transposed(shape_.keys, keys_, values_transposed_.get());
    std::fill_n(key_sums_.get(), keys_ * columns_, C(0));
    std::fill_n(value_sums_.get(), keys_ * columns_, C(0));
    const int64_t count = shape_.heads_per_group();
    for (int64_t head = group * count; head < (group + 1) * count; ++head) {
      for (int64_t first = 0; first < shape_.queries; first += kQueryBlock) {
        query_block(batch, head, first);
      }
    }
    HeadRows(given_.dk, batch, group).store(0, shape_.keys, columns_, key_sums_.get());
    HeadRows(given_.dv, batch, group).store(0, shape_.keys, columns_, value_sums_.get());
  }

 private:
  void query_block(int64_t batch, int64_t head, int64_t first) {
    const int64_t end = std::min(first + kQueryBlock, shape_.queries);
    const int64_t rows = round_up(end - first, kBlockRows);
    const C scale = static_cast<C>(shape_.scale);
    load_queries(batch, head, first, end, rows);
    std::fill_n(query_sums_.get(), rows * columns_, C(0));
    for (int64_t key = 0; key < shape_.seen(end - 1); key += kKeyBlock) {
      multiply_seen(shape_, first, rows, key, queries_.get(), columns_, keys_transposed_.get(),
                    keys_, shape_.width, weights_.get());
      multiply_seen(shape_, first, rows, key, grads_.get(), columns_, values_transposed_.get(),
                    keys_, shape_.width, slopes_.get());
      for (int64_t row = 0; row < rows; ++row) {
        weigh(row, first + row < end ? shape_.seen_of(first + row, key) : 0);
      }
      add_seen(shape_, first, rows, key, slopes_.get(), key_rows_.get() + key * columns_, columns_,
               query_sums_.get());
      add_to_keys(first, rows, key, weights_.get(), grads_.get(), value_sums_.get());
      add_to_keys(first, rows, key, slopes_.get(), queries_.get(), key_sums_.get());
    }
    for (int64_t i = 0; i < rows * columns_; ++i) query_sums_.get()[i] *= scale;
    HeadRows(given_.dq, batch, head).store(first, end, columns_, query_sums_.get());
  }

  // Queries times the scale, the output's gradient, and the product of output and gradient.
  void load_queries(int64_t batch, int64_t head, int64_t first, int64_t end, int64_t rows) {
    HeadRows(given_.out, batch, head).load(first, end, rows, columns_, queries_.get());
    HeadRows(given_.dout, batch, head).load(first, end, rows, columns_, grads_.get());
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * columns_;
      products_[row] = row_dot(queries_.get() + at, grads_.get() + at, shape_.width);
    }
    HeadRows(given_.q, batch, head)
        .load(first, end, rows, columns_, queries_.get(), static_cast<C>(shape_.scale));
    const C* const log_sums = given_.log_sum_exp.template data<C>() +
                              (batch * shape_.heads + head) * shape_.queries + first;
    std::fill(std::copy_n(log_sums, end - first, log_sums_), log_sums_ + rows, C(0));
  }

  // Scores become weights, and gradients of weights those of scores.
  void weigh(int64_t row, int64_t seen) {
    C* const weights = weights_.get() + row * kKeyBlock;
    C* const slopes = slopes_.get() + row * kKeyBlock;
    const C log_sum = log_sums_[row];
    const C product = products_[row];
#pragma GCC ivdep
    for (int64_t j = 0; j < seen; ++j) {
      weights[j] = math::exp_not_positive(weights[j] - log_sum);
      slopes[j] = weights[j] * (slopes[j] - product);
    }
    std::fill(weights + seen, weights + kKeyBlock, C(0));
    std::fill(slopes + seen, slopes + kKeyBlock, C(0));
  }

  // sums of the block's keys += weights^T rows, each band of keys from the first query on that
  // sees it.
  void add_to_keys(int64_t first, int64_t rows, int64_t key, const C* weights, const C* b,
                   C* sums) const {
    const int64_t most =
        round_up(shape_.seen_of(std::min(first + rows, shape_.queries) - 1, key), kBlockRows);
    for (int64_t band = 0; band < most; band += kBand) {
      const int64_t count = std::min(kBand, most - band);
      const int64_t from =
          shape_.causal
              ? std::clamp(key + band - (shape_.keys - shape_.queries) - first, int64_t{0}, rows)
              : 0;
      multiply_block<C>(count, columns_, rows - from,
                        {weights + from * kKeyBlock + band, 1, kKeyBlock}, b + from * columns_,
                        columns_, sums + (key + band) * columns_, columns_, true);
    }
  }

  const AttentionShape& shape_;
  const Operands& given_;
  const int64_t columns_;  // of a head, padded
  const int64_t keys_;     // padded
  BlockBuffer<C> keys_transposed_, values_transposed_, key_rows_, key_sums_, value_sums_;
  BlockBuffer<C> queries_, grads_, query_sums_, weights_, slopes_;
  C log_sums_[kQueryBlock];
  C products_[kQueryBlock];
};

void attention_backward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                            const Tensor& log_sum_exp, const Tensor& dout, Tensor& dq, Tensor& dk,
                            Tensor& dv, const AttentionParams& params) {
  if (k.numel() == 0) return;
  const AttentionShape shape(q, k, params);
  const Operands operands{q, k, v, out, log_sum_exp, dout, dq, dk, dv};
  dispatch_types<float, double>(compute_dtype(q.dtype()), "attention_backward", [&]<class C>() {
    parallel_for(shape.batch * shape.groups, static_cast<int64_t>(shape.flops() / 8),
                 [&](int64_t begin, int64_t end) {
                   Backward<C> backward(shape, operands);
                   for (int64_t i = begin; i < end; ++i) {
                     backward.group(i / shape.groups, i % shape.groups);
                   }
                 });
  });
}

[[maybe_unused]] const bool registered =
    attention_backward.set(DeviceType::cpu, attention_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
