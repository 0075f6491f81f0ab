// What attention's forward and backward share on the CPU: the walk over heads, and the operands of
// one head in the type that is computed in, padded to whole blocks.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "tenon/kernels/attention.h"
#include "tenon/kernels/cpu/block_product.h"
#include "tenon/kernels/cpu/convert.h"

namespace tenon::kernels::cpu {

inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kBand = 16;  // rows or keys that the mask cuts as one

inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Aligned memory that is not initialised.
template <class C>
class BlockBuffer {
 public:
  explicit BlockBuffer(int64_t size)
      : data_(static_cast<C*>(::operator new(static_cast<size_t>(size) * sizeof(C), kAlign))) {}
  C* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlign{kVectorBytes};
  struct Free {
    void operator()(C* data) const { ::operator delete(data, kAlign); }
  };
  std::unique_ptr<C, Free> data_;
};

struct AttentionShape {
  AttentionShape(const Tensor& q, const Tensor& k, const AttentionParams& params)
      : batch(q.dim(0)),
        heads(q.dim(1)),
        groups(k.dim(1)),
        queries(q.dim(2)),
        keys(k.dim(2)),
        width(q.dim(3)),
        causal(params.causal),
        scale(params.scale) {}

  int64_t batch, heads, groups, queries, keys, width;
  bool causal;
  double scale;

  int64_t heads_per_group() const { return heads / groups; }
  // Keys that query t sees.
  int64_t seen(int64_t t) const { return causal ? std::min(keys, t + keys - queries + 1) : keys; }
  // How many keys of the block from `key` on query t sees.
  int64_t seen_of(int64_t t, int64_t key) const {
    return std::clamp(seen(t) - key, int64_t{0}, kKeyBlock);
  }
  double flops() const {
    return 4.0 * static_cast<double>(batch * heads * queries * keys * width) * (causal ? 0.5 : 1);
  }
};

// The rows (T, D) of one head.
class HeadRows {
 public:
  HeadRows(const Tensor& tensor, int64_t batch, int64_t head)
      : dtype_(tensor.dtype()),
        stride_(tensor.strides()[2]),
        width_(tensor.dim(3)),
        data_(at_element(tensor.raw_data(), dtype_,
                         batch * tensor.strides()[0] + head * tensor.strides()[1])) {}

  // Rows [begin, end) times `factor`, padded with zeros to `rows` rows of `columns`.
  template <class C>
  void load(int64_t begin, int64_t end, int64_t rows, int64_t columns, C* to, C factor = 1) const {
    const RowConverter convert = row_converter(dtype_, dtype_of<C>);
    for (int64_t row = 0; row < rows; ++row, to += columns) {
      const bool exists = begin + row < end;
      if (exists) convert(at(begin + row), 1, to, 1, width_);
      if (exists && factor != 1) {
        for (int64_t i = 0; i < width_; ++i) to[i] *= factor;
      }
      std::fill(to + (exists ? width_ : 0), to + columns, C(0));
    }
  }
  // The transpose of all rows: (width, columns), zeros in the columns beyond them.
  template <class C>
  void load_transposed(int64_t count, int64_t columns, C* to) const {
    const RowConverter convert = row_converter(dtype_, dtype_of<C>);
    BlockBuffer<C> buffer(kBand * width_);
    for (int64_t row = 0; row < columns; row += kBand) {
      const int64_t exist = std::clamp(count - row, int64_t{0}, kBand);
      for (int64_t j = 0; j < exist; ++j) {
        convert(at(row + j), 1, buffer.get() + j * width_, 1, width_);
      }
      std::fill(buffer.get() + exist * width_, buffer.get() + kBand * width_, C(0));
      const C* const from = buffer.get();
      for (int64_t i = 0; i < width_; ++i) {
        for (int64_t j = 0; j < kBand; ++j) to[i * columns + row + j] = from[j * width_ + i];
      }
    }
  }
  template <class C>
  void store(int64_t begin, int64_t end, int64_t columns, const C* from) const {
    const RowConverter convert = row_converter(dtype_of<C>, dtype_);
    for (int64_t row = begin; row < end; ++row, from += columns) {
      convert(from, 1, at(row), 1, width_);
    }
  }

 private:
  void* at(int64_t row) const { return at_element(data_, dtype_, row * stride_); }

  DType dtype_;
  int64_t stride_;
  int64_t width_;
  void* data_;
};

// out (rows, keys) = a bt for the queries from `first` on and the keys of the block at `key`, but
// only up to what each band of rows sees.
template <class C>
void multiply_seen(const AttentionShape& shape, int64_t first, int64_t rows, int64_t key,
                   const C* a, int64_t a_row, const C* bt, int64_t bt_row, int64_t depth, C* out) {
  for (int64_t band = 0; band < rows; band += kBand) {
    const int64_t count = std::min(kBand, rows - band);
    const int64_t last = std::min(first + band + count, shape.queries) - 1;
    const int64_t columns = round_up(shape.seen_of(last, key), kLanes<C>);
    multiply_block<C>(count, columns, depth, {a + band * a_row, a_row, 1}, bt + key, bt_row,
                      out + band * kKeyBlock, kKeyBlock, false);
  }
}

// c (rows, columns) += weights b over the keys of the block that each band of rows sees; weights
// beyond are zeros.
template <class C>
void add_seen(const AttentionShape& shape, int64_t first, int64_t rows, int64_t key,
              const C* weights, const C* b, int64_t columns, C* c) {
  for (int64_t band = 0; band < rows; band += kBand) {
    const int64_t count = std::min(kBand, rows - band);
    const int64_t last = std::min(first + band + count, shape.queries) - 1;
    multiply_block<C>(count, columns, shape.seen_of(last, key),
                      {weights + band * kKeyBlock, kKeyBlock, 1}, b, columns, c + band * columns,
                      columns, true);
  }
}

}  // namespace tenon::kernels::cpu
