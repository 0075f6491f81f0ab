#include "tenon/kernels/cpu/permuted_copy.h"

#include <algorithm>

#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"

namespace tenon::kernels::cpu {
namespace {

constexpr int64_t kTile = 32;

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

void copy_permuted(const PermutedPlan& plan, const Tensor& from, const Tensor& to) {
  const auto& [outer, rows, columns, to_stride, from_stride] = plan;
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
