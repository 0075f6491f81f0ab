// Products of small matrices that lie in the cache, for kernels that work block by block. Columns
// come in whole vectors and rows in groups of kBlockRows: callers pad with zeros.
#pragma once

#include <cstdint>
#include <cstring>

namespace tenon::kernels::cpu {

inline constexpr int64_t kBlockRows = 8;
// A tile of kTileRows times two vectors, its sums in registers.
#if defined(__AVX512F__)
inline constexpr int64_t kVectorBytes = 64;
inline constexpr int64_t kTileRows = 8;
#elif defined(__AVX__)
inline constexpr int64_t kVectorBytes = 32;
inline constexpr int64_t kTileRows = 4;
#else
inline constexpr int64_t kVectorBytes = 16;
inline constexpr int64_t kTileRows = 4;
#endif
template <class C>
inline constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(C));

template <class C>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};

// A left operand: element (i, k) is data[i * row + k * step].
template <class C>
struct LeftBlock {
  const C* data;
  int64_t row;
  int64_t step;
};

template <class C, int kVectors>
[[gnu::always_inline]] inline void multiply_tile(const LeftBlock<C>& a, const C* b, int64_t b_row,
                                                 C* c, int64_t c_row, int64_t depth,
                                                 bool accumulate) {
  using Vector = typename VectorOf<C>::type;
  Vector sums[kTileRows][kVectors];
  for (int64_t i = 0; i < kTileRows; ++i) {
    for (int64_t j = 0; j < kVectors; ++j) {
      sums[i][j] =
          accumulate ? *reinterpret_cast<const Vector*>(c + i * c_row + j * kLanes<C>) : Vector{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector right[kVectors];
    for (int64_t j = 0; j < kVectors; ++j) {
      right[j] = *reinterpret_cast<const Vector*>(b + k * b_row + j * kLanes<C>);
    }
    for (int64_t i = 0; i < kTileRows; ++i) {
      const C left = a.data[i * a.row + k * a.step];
      for (int64_t j = 0; j < kVectors; ++j) sums[i][j] += left * right[j];
    }
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    for (int64_t j = 0; j < kVectors; ++j) {
      *reinterpret_cast<Vector*>(c + i * c_row + j * kLanes<C>) = sums[i][j];
    }
  }
}

// c (rows, columns) = a (rows, depth) b (depth, columns), or += when `accumulate`. `rows` is a
// multiple of kBlockRows, `columns` of kLanes<C>.
template <class C>
void multiply_block(int64_t rows, int64_t columns, int64_t depth, const LeftBlock<C>& a, const C* b,
                    int64_t b_row, C* c, int64_t c_row, bool accumulate) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    const LeftBlock<C> left{a.data + row * a.row, a.row, a.step};
    int64_t column = 0;
    for (; column + 2 * kLanes<C> <= columns; column += 2 * kLanes<C>) {
      multiply_tile<C, 2>(left, b + column, b_row, c + row * c_row + column, c_row, depth,
                          accumulate);
    }
    if (column < columns) {
      multiply_tile<C, 1>(left, b + column, b_row, c + row * c_row + column, c_row, depth,
                          accumulate);
    }
  }
}

}  // namespace tenon::kernels::cpu
