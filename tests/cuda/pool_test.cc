// What the tests of kernels/ do not reach: groups of channels, more elements than threads, windows
// numbered in 32 bits, results in other layouts than their inputs.
#include "tenon/kernels/pool.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::PoolParams;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

enum class Order { row_major, channels_last, spaced };

Strides strides_of(const Shape& shape, Order order) {
  if (order == Order::row_major) return contiguous_strides(shape);
  Strides strides = channels_last_strides(shape);
  if (order == Order::spaced) {
    for (int i = 0; i < 4; ++i) strides[i] *= 2;
  }
  return strides;
}

Pair image(const Shape& shape, Order order, int64_t offset, DType dtype, unsigned seed) {
  return Pair({2 * shape.numel() + offset}, dtype, seed)
      .view(shape, strides_of(shape, order), offset);
}

Pair indices(const Shape& shape, Order order, DType dtype) {
  const Strides strides = strides_of(shape, order);
  return {empty({2 * shape.numel()}, {dtype, kCpu}).as_strided(shape, strides),
          empty({2 * shape.numel()}, {dtype, kCuda}).as_strided(shape, strides)};
}

void check(const Shape& shape, const PoolParams& p, DType dtype, DType index, Order in, Order out,
           int64_t offset) {
  Shape pooled = shape;
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i) + 2;
    pooled[axis] = (shape[axis] + 2 * p.padding[i] - p.kernel[i]) / p.stride[i] + 1;
  }
  const Pair x = image(shape, in, offset, dtype, 1), dy = image(pooled, out, offset, dtype, 2);
  Pair y = image(pooled, out, offset, dtype, 3), dx = image(shape, in, offset, dtype, 4);
  Pair window = indices(pooled, out, index);
  INFO(describe(x.cuda) << " strides " << x.cuda.strides() << " to " << y.cuda.strides());
  kernels::max_pool2d(DeviceType::cpu, x.cpu, y.cpu, window.cpu, p);
  kernels::max_pool2d(DeviceType::cuda, x.cuda, y.cuda, window.cuda, p);
  CHECK(y.cuda.to_vector() == y.cpu.to_vector());
  CHECK(window.cuda.to_vector() == window.cpu.to_vector());
  kernels::max_pool2d_backward(DeviceType::cpu, dy.cpu, window.cpu, dx.cpu, p);
  kernels::max_pool2d_backward(DeviceType::cuda, dy.cuda, window.cuda, dx.cuda, p);
  CHECK(max_error(dx.cuda.to_vector(), dx.cpu.to_vector()) < tolerance(dtype));
  kernels::avg_pool2d(DeviceType::cpu, x.cpu, y.cpu, p);
  kernels::avg_pool2d(DeviceType::cuda, x.cuda, y.cuda, p);
  CHECK(max_error(y.cuda.to_vector(), y.cpu.to_vector()) < tolerance(dtype));
  kernels::avg_pool2d_backward(DeviceType::cpu, dy.cpu, dx.cpu, p);
  kernels::avg_pool2d_backward(DeviceType::cuda, dy.cuda, dx.cuda, p);
  CHECK(max_error(dx.cuda.to_vector(), dx.cpu.to_vector()) < tolerance(dtype));
}

}  // namespace

TEST_CASE("cuda pooling: images of every layout") {
  for (const DType dtype : kFloating) {
    for (const PoolParams& p :
         {PoolParams{{2, 2}, {2, 2}, {0, 0}}, PoolParams{{3, 3}, {2, 2}, {1, 1}},
          PoolParams{{3, 2}, {1, 2}, {1, 0}}, PoolParams{{2, 3}, {4, 5}, {0, 1}}}) {
      for (const Shape& shape : {Shape{2, 16, 9, 11}, Shape{1, 3, 7, 8}, Shape{3, 1, 20, 6}}) {
        for (const Order order : {Order::row_major, Order::channels_last, Order::spaced}) {
          check(shape, p, dtype, DType::u8, order, order, 0);
          check(shape, p, dtype, DType::u8, order, order, 1);
        }
        check(shape, p, dtype, DType::u8, Order::channels_last, Order::row_major, 0);
        check(shape, p, dtype, DType::i32, Order::row_major, Order::channels_last, 0);
      }
    }
  }
}

TEST_CASE("cuda pooling: windows of more than 256 elements") {
  const PoolParams p{{20, 20}, {20, 20}, {0, 0}};
  for (const Order order : {Order::row_major, Order::channels_last}) {
    check({1, 8, 40, 40}, p, DType::f32, DType::i32, order, order, 0);
  }
}

}  // namespace tenon
