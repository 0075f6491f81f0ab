// What the tests of kernels/ do not reach: tiles that are full, cut off, and too small to be used;
// copies in one block and fills by memset next to those by a kernel.
#include "tenon/kernels/copy.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"

namespace tenon {
namespace {

using testing::kCuda;
using Pair = testing::DevicePair;

// Small numbers that every dtype holds.
Pair numbers(int64_t count, DType dtype) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 101);
  const Tensor cpu = from_vector(values, {count}, {dtype, kCpu});
  return {cpu, copied_to(cpu, kCuda)};
}

// Copies on both devices into memory that is larger than the tensor, and compares all of it.
void check(const Pair& from, DType to, const Strides& strides, int64_t offset, int64_t elements) {
  Pair memory = numbers(elements, to);
  Pair view = memory.view(from.cpu.shape(), strides, offset);
  INFO(describe(from.cuda) << " strides " << from.cuda.strides() << " to " << to << " strides "
                           << strides << " offset " << offset);
  kernels::copy(DeviceType::cpu, from.cpu, view.cpu);
  kernels::copy(DeviceType::cuda, from.cuda, view.cuda);
  CHECK(memory.cuda.to_vector() == memory.cpu.to_vector());
}

}  // namespace

TEST_CASE("cuda copy: every pair of dtypes, in rows and in tiles") {
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto to_type = static_cast<DType>(to);
      const Pair memory = numbers(4000, static_cast<DType>(from));
      check(memory.view({1037}, {1}), to_type, {1}, 0, 1040);
      check(memory.view({1037}, {1}, 3), to_type, {1}, 1, 1040);
      check(memory.view({20, 30}, {31, 1}), to_type, {30, 1}, 0, 600);
      check(memory.view({70, 50}, {1, 70}), to_type, {50, 1}, 0, 3500);
    }
  }
}

TEST_CASE("cuda copy: transposed and permuted tensors of every size of element") {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const Pair memory = numbers(20000, dtype);
    for (const Shape& shape : {Shape{32, 32}, Shape{64, 64}, Shape{65, 129}, Shape{8, 200},
                               Shape{7, 40}, Shape{40, 7}, Shape{2, 3}, Shape{1, 30}}) {
      check(memory.view(shape, {1, shape[0]}), dtype, {shape[1], 1}, 0, shape.numel());
      check(memory.view(shape, {1, shape[0] + 3}, 5), dtype, {shape[1] + 2, 1}, 1,
            shape[0] * (shape[1] + 2) + 1);
    }
    // Channels-last and back, heads of attention, three axes turned around, repeated rows.
    check(memory.view({2, 12, 9, 11}, {1188, 1, 132, 12}), dtype, {1188, 99, 11, 1}, 0, 2376);
    check(memory.view({2, 12, 9, 11}, {1188, 99, 11, 1}), dtype, {1188, 1, 132, 12}, 0, 2376);
    check(memory.view({2, 4, 17, 16}, {1088, 16, 64, 1}), dtype, {1088, 272, 16, 1}, 0, 2176);
    check(memory.view({10, 11, 12}, {1, 10, 110}), dtype, {132, 12, 1}, 0, 1320);
    check(memory.view({30, 40}, {0, 1}), dtype, {40, 1}, 0, 1200);
    check(memory.view({30, 40}, {1, 0}), dtype, {40, 1}, 0, 1200);
    check(memory.view({3, 0}, {1, 3}), dtype, {1, 1}, 0, 1);
    check(memory.view({}, {}), dtype, {}, 2, 5);
  }
}

TEST_CASE("cuda fill: bytes alike or not, whole tensors and parts") {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const double value : {0.0, 1.0, -1.0, 2.5}) {
      if (value < 0 && (dtype == DType::u8 || dtype == DType::boolean)) continue;
      for (const auto& [strides, offset] : {std::pair{Strides{40, 1}, int64_t{0}},
                                            {Strides{40, 1}, 3},
                                            {Strides{50, 1}, 0},
                                            {Strides{1, 30}, 0},
                                            {Strides{80, 2}, 1}}) {
        Pair memory = numbers(2600, dtype);
        Pair view = memory.view({30, 40}, strides, offset);
        INFO(value << " into " << dtype << " strides " << strides << " offset " << offset);
        kernels::fill(DeviceType::cpu, view.cpu, value);
        kernels::fill(DeviceType::cuda, view.cuda, value);
        CHECK(memory.cuda.to_vector() == memory.cpu.to_vector());
      }
    }
  }
}

}  // namespace tenon
