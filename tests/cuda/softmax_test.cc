// What the tests of kernels/ do not reach: rows for every number of threads, rows too long for
// shared memory, packed and barely aligned memory, columns over several blocks.
#include "tenon/kernels/softmax.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// All tensors with the strides of `x`, in memory of their own.
Pair like(const Pair& x, const Pair& store, unsigned seed) {
  return Pair(store.cpu.shape(), store.cpu.dtype(), seed)
      .view(x.cpu.shape(), x.cpu.strides(), x.cpu.offset());
}

void check(const Pair& x, const Pair& store, int axis) {
  INFO(describe(x.cuda) << " strides " << x.cuda.strides() << " offset " << x.cuda.offset()
                        << " axis " << axis);
  const double limit = 2 * tolerance(x.cpu.dtype());
  const Pair dy = like(x, store, 2);
  Pair y = like(x, store, 3), dx = like(x, store, 4);
  for (const bool log : {false, true}) {
    auto& forward = log ? kernels::log_softmax : kernels::softmax;
    auto& backward = log ? kernels::log_softmax_backward : kernels::softmax_backward;
    forward(DeviceType::cpu, x.cpu, y.cpu, axis);
    forward(DeviceType::cuda, x.cuda, y.cuda, axis);
    CHECK(max_error(y.cuda.to_vector(), y.cpu.to_vector()) < limit);
    backward(DeviceType::cpu, y.cpu, dy.cpu, dx.cpu, axis);
    backward(DeviceType::cuda, y.cuda, dy.cuda, dx.cuda, axis);
    CHECK(max_error(dx.cuda.to_vector(), dx.cpu.to_vector()) < 2 * limit);
  }
}

}  // namespace

TEST_CASE("cuda softmax: rows and columns of every length") {
  for (const DType dtype : kFloating) {
    for (const int64_t length : {1, 3, 8, 31, 100, 256, 1032, 2049}) {
      const Pair store({19, length}, dtype, 1);
      check(store, store, 1);
      check(store.view({length, 19}, {1, length}), store, 0);
      check(store, store, 0);
    }
    const Pair longest({2, 9000}, dtype, 1);  // not kept in shared memory
    check(longest, longest, 1);
    const Pair column({9000, 2}, dtype, 1);
    check(column, column, 0);
  }
}

TEST_CASE("cuda softmax: parts of a larger tensor, and images") {
  for (const DType dtype : kFloating) {
    const Pair store({4000}, dtype, 1);
    for (const int64_t offset : {0, 1, 8}) {
      for (const int64_t row : {64, 65}) {
        check(store.view({3, 10, 48}, {12 * row, row, 1}, offset), store, 2);
        check(store.view({3, 10, 48}, {12 * row, row, 1}, offset), store, 1);
      }
    }
    const Pair image({2, 19, 5, 7}, dtype, 1);
    for (int axis = 0; axis < 4; ++axis) check(image, image, axis);
  }
}

}  // namespace tenon
