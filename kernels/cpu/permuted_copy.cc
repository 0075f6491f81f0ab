#include "tenon/kernels/cpu/permuted_copy.h"

#include <algorithm>
#include <array>

#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"

namespace tenon::kernels::cpu {
namespace {

constexpr int64_t kTile = 32;

// The dimension along which `from` is dense, or -1.
int dense_dim(const LoopPlan& plan) {
  for (int dim = 0; dim + 1 < plan.dims; ++dim) {
    if (plan.stride(1, dim) == 1 && plan.sizes[static_cast<size_t>(dim)] > 1) return dim;
  }
  return -1;
}

// The plan without its last dimension and `dim`.
LoopPlan without_tile(const LoopPlan& plan, int dim) {
  Shape shape;
  std::array<Strides, 2> strides;
  for (int i = 0; i + 1 < plan.dims; ++i) {
    if (i == dim) continue;
    shape.push_back(plan.sizes[static_cast<size_t>(i)]);
    for (size_t k = 0; k < 2; ++k) strides[k].push_back(plan.stride(static_cast<int>(k), i));
  }
  const std::array<const Strides*, 2> pointers{&strides[0], &strides[1]};
  return LoopPlan(shape, pointers);
}

// to[row * to_stride + column] = tile[column * kTile + row].
template <class Bits>
void write_tile(const void* tile_data, void* to_data, int64_t to_stride, int64_t rows,
                int64_t columns) {
  const Bits* tile = static_cast<const Bits*>(tile_data);
  Bits* to = static_cast<Bits*>(to_data);
  for (int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep
    for (int64_t column = 0; column < columns; ++column) {
      to[row * to_stride + column] = tile[column * kTile + row];
    }
  }
}

using TileWriter = void (*)(const void* tile, void* to, int64_t to_stride, int64_t rows,
                            int64_t columns);
TileWriter tile_writer(size_t element_size) {
  switch (element_size) {
    case 1:
      return write_tile<uint8_t>;
    case 2:
      return write_tile<uint16_t>;
    case 4:
      return write_tile<uint32_t>;
    default:
      return write_tile<uint64_t>;
  }
}

}  // namespace

bool is_permuted(const LoopPlan& plan) {
  return plan.inner_stride(0) == 1 && plan.inner_stride(1) > 1 && plan.inner() > 1 &&
         dense_dim(plan) >= 0;
}

void copy_permuted(const LoopPlan& plan, const Tensor& from, const Tensor& to) {
  const int dim = dense_dim(plan);
  const LoopPlan outer = without_tile(plan, dim);
  const int64_t rows = plan.sizes[static_cast<size_t>(dim)];
  const int64_t columns = plan.inner();
  const int64_t from_stride = plan.inner_stride(1);
  const int64_t to_stride = plan.stride(0, dim);
  const int64_t row_tiles = (rows + kTile - 1) / kTile;
  const RowConverter convert = row_converter(from.dtype(), to.dtype());
  const TileWriter write = tile_writer(size_of(to.dtype()));
  const int64_t bytes = static_cast<int64_t>(from.nbytes() + to.nbytes());
  parallel_for(outer.count * row_tiles, bytes, [&](int64_t begin, int64_t end) {
    alignas(64) char tile[kTile * kTile * 8];
    for (int64_t task = begin; task < end; ++task) {
      const LoopCursor place(outer, task / row_tiles);
      const int64_t row = task % row_tiles * kTile;
      const int64_t height = std::min(kTile, rows - row);
      for (int64_t column = 0; column < columns; column += kTile) {
        const int64_t width = std::min(kTile, columns - column);
        for (int64_t i = 0; i < width; ++i) {
          convert(at_element(from.raw_data(), from.dtype(),
                             place.offset(1) + row + (column + i) * from_stride),
                  1, at_element(tile, to.dtype(), i * kTile), 1, height);
        }
        write(tile,
              at_element(to.raw_data(), to.dtype(), place.offset(0) + row * to_stride + column),
              to_stride, height, width);
      }
    }
  });
}

}  // namespace tenon::kernels::cpu
