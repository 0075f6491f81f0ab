#include "tenon/kernels/cuda/permuted_copy.h"

#include <algorithm>
#include <bit>

#include "tenon/core/cuda/context.h"
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cuda/strided.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int64_t kShortestSide = 8;

// Rows of a tile start on different banks of shared memory, whatever the size of an element.
template <class Bits>
inline constexpr int kTile = sizeof(Bits) <= 2 ? 64 : 32;
template <class Bits>
inline constexpr int kPad = sizeof(Bits) < 4 ? static_cast<int>(4 / sizeof(Bits)) : 1;

template <size_t size>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = uint8_t;
};
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
template <>
struct BitsOf<8> {
  using type = uint64_t;
};

struct Tiles {
  Tiles(const PermutedPlan& plan, int tile)
      : outer(plan.outer),
        rows(plan.rows),
        columns(plan.columns),
        to_stride(plan.to_stride),
        from_stride(plan.from_stride),
        down((rows + tile - 1) / tile),
        across((columns + tile - 1) / tile) {}
  TENON_HD int64_t count() const { return outer.count * down * across; }

  Walk<2> outer;
  int64_t rows, columns, to_stride, from_stride;
  int64_t down, across;  // tiles
};

// to[row * to_stride + column] = from[row + column * from_stride].
template <class To, class From>
__global__ void __launch_bounds__(kThreads)
    permuted_kernel(Tiles tiles, To* to_data, const From* from_data) {
  using Bits = typename BitsOf<sizeof(To)>::type;
  constexpr int kSide = kTile<Bits>;
  constexpr int kWarps = kThreads / kLanes;
  SIMT_SHARED(Bits, tile, [kTile<Bits>][kTile<Bits> + kPad<Bits>]);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  for (int64_t task = blockIdx.x; task < tiles.count(); task += gridDim.x) {
    const int64_t column = task % tiles.across * kSide;
    const int64_t row = task / tiles.across % tiles.down * kSide;
    const auto place = tiles.outer.place(task / tiles.across / tiles.down);
    const From* const from = from_data + place.at[1] + row + column * tiles.from_stride;
    To* const to = to_data + place.at[0] + row * tiles.to_stride + column;
    const int64_t height = min(int64_t{kSide}, tiles.rows - row);
    const int64_t width = min(int64_t{kSide}, tiles.columns - column);
    From loaded[kSide / kWarps][kSide / kLanes];
#pragma unroll
    for (int i = 0; i < kSide / kWarps; ++i) {
#pragma unroll
      for (int j = 0; j < kSide / kLanes; ++j) {
        const int c = warp + i * kWarps, r = lane + j * kLanes;
        if (c < width && r < height) loaded[i][j] = from[r + c * tiles.from_stride];
      }
    }
#pragma unroll
    for (int i = 0; i < kSide / kWarps; ++i) {
#pragma unroll
      for (int j = 0; j < kSide / kLanes; ++j) {
        const int c = warp + i * kWarps, r = lane + j * kLanes;
        const To value = static_cast<To>(static_cast<Compute<To>>(to_compute(loaded[i][j])));
        if (c < width && r < height) tile[c][r] = std::bit_cast<Bits>(value);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide / kWarps; ++i) {
#pragma unroll
      for (int j = 0; j < kSide / kLanes; ++j) {
        const int r = warp + i * kWarps, c = lane + j * kLanes;
        if (c < width && r < height) {
          to[r * tiles.to_stride + c] = std::bit_cast<To>(tile[c][r]);
        }
      }
    }
    __syncthreads();
  }
}

template <class To, class From>
void launch_tiles(const PermutedPlan& plan, const Tensor& from, const Tensor& to) {
  const Tiles tiles(plan, kTile<typename BitsOf<sizeof(To)>::type>);
  simt::launch("copy", permuted_kernel<To, From>, grid_for(to.device(), tiles.count(), 1), kThreads,
               0, tenon::cuda::stream_of(to), tiles, static_cast<To*>(to.raw_data()),
               static_cast<const From*>(from.raw_data()));
}

}  // namespace

bool copy_permuted(const PermutedPlan& plan, const Tensor& from, const Tensor& to) {
  if (std::min(plan.rows, plan.columns) < kShortestSide) return false;
  if (from.dtype() == to.dtype()) {
    with_bits(size_of(to.dtype()), [&]<class Bits>() { launch_tiles<Bits, Bits>(plan, from, to); });
    return true;
  }
  if (!is_floating(from.dtype()) || !is_floating(to.dtype())) return false;
  dispatch_floating(from.dtype(), "copy", [&]<class From>() {
    dispatch_floating(to.dtype(), "copy", [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) launch_tiles<To, From>(plan, from, to);
    });
  });
  return true;
}

}  // namespace tenon::kernels::cuda
