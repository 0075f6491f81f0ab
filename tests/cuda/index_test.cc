// What the tests of kernels/ do not reach: long lists of ids, many of them alike, over several
// blocks of the sort; slices that are packed or not; axes that lie innermost; faults.
#include <catch2/catch.hpp>

#include "tenon/core/runtime.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/embedding.h"
#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Pair ids_of(const std::vector<double>& values, DType dtype = DType::i64) {
  const Tensor cpu =
      from_vector(values, {static_cast<int64_t>(values.size())}, {.dtype = dtype, .device = kCpu});
  return {cpu, copied_to(cpu, kCuda)};
}

// A third of the ids are 0.
Pair some_ids(int64_t count, int64_t limit, DType dtype = DType::i64) {
  std::vector<double> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(i % 3 == 0 ? 0 : static_cast<double>((i * 7919 + i * i * 31) % limit));
  }
  return ids_of(ids, dtype);
}

// Takes and adds slices of `x` along `axis`.
void check(const Pair& x, const Pair& ids, int axis) {
  const DType dtype = x.cpu.dtype();
  INFO(describe(x.cuda) << " strides " << x.cuda.strides() << " offset " << x.cuda.offset()
                        << " axis " << axis << " by " << describe(ids.cuda));
  Shape shape = x.cpu.shape();
  shape[axis] = ids.cpu.numel();
  Pair taken(shape, dtype, 1), addends(shape, dtype, 2);
  kernels::index_select(DeviceType::cpu, x.cpu, ids.cpu, taken.cpu, axis);
  kernels::index_select(DeviceType::cuda, x.cuda, ids.cuda, taken.cuda, axis);
  CHECK(taken.cuda.to_vector() == taken.cpu.to_vector());
  Pair sum = x;
  kernels::index_add(DeviceType::cpu, addends.cpu, ids.cpu, sum.cpu, axis);
  kernels::index_add(DeviceType::cuda, addends.cuda, ids.cuda, sum.cuda, axis);
  if (dtype == compute_dtype(dtype)) {
    CHECK(sum.cuda.to_vector() == sum.cpu.to_vector());  // the same order
  } else {
    // The CPU rounds after each addend.
    CHECK(max_error(sum.cuda.to_vector(), sum.cpu.to_vector()) < 30 * tolerance(dtype));
  }
}

}  // namespace

TEST_CASE("cuda index: slices along every axis, packed or not") {
  for (const DType dtype : kFloating) {
    for (int axis = 0; axis < 3; ++axis) {
      check(Pair({6, 5, 16}, dtype, 1), some_ids(9, 5), axis);
      check(Pair({6, 5, 17}, dtype, 1), some_ids(9, 5, DType::i32), axis);
      for (const int64_t offset : {0, 1, 8}) {
        // In memory of their own: where the CPU rounds more often the tensors then differ.
        const auto view = [&](const Strides& strides) {
          return Pair({3000}, dtype, 1).view({6, 5, 16}, strides, offset);
        };
        check(view({160, 24, 1}), some_ids(9, 5), axis);
        check(view({1, 6, 32}), some_ids(9, 5), axis);
        check(view({200, 40, 2}), some_ids(9, 5), axis);
      }
    }
    check(Pair({1, 40}, dtype, 1), some_ids(300, 1), 0);
    check(Pair({300}, dtype, 1), some_ids(7, 300), 0);
  }
}

TEST_CASE("cuda index: long lists are added in their order") {
  for (const int64_t count : {1, 255, 256, 257, 700, 2000}) {
    check(Pair({50, 7}, DType::f32, 1), some_ids(count, 50), 0);
    check(Pair({3, 700}, DType::f32, 1), some_ids(count, 700), 1);
  }
  const Pair ids = some_ids(2000, 1000);
  check(Pair({1000, 3}, DType::f32, 1), ids.view({600}, {3}, 1), 0);
}

TEST_CASE("cuda embedding_backward: zeroed or added to, into the dtype or a wider one") {
  for (const DType dtype : kFloating) {
    for (const DType wide : {dtype, compute_dtype(dtype)}) {
      for (const int64_t width : {1, 10, 64}) {
        const Pair dout({600, width}, dtype, 1), ids = some_ids(600, 40);
        Pair dweight({45, width}, wide, 2);
        for (const bool accumulate : {false, true}) {
          kernels::embedding_backward(DeviceType::cpu, dout.cpu, ids.cpu, dweight.cpu, accumulate);
          kernels::embedding_backward(DeviceType::cuda, dout.cuda, ids.cuda, dweight.cuda,
                                      accumulate);
          INFO(dtype << " into " << wide << " width " << width);
          CHECK(max_error(dweight.cuda.to_vector(), dweight.cpu.to_vector()) <
                (wide == dtype ? 30 : 1) * tolerance(wide));
        }
      }
    }
  }
}

TEST_CASE("cuda index: ids out of range are reported and harm nothing") {
  const Pair weight({5, 8}, DType::f32, 1), ids = ids_of({1, 9, 4});
  Tensor out = empty({3, 8}, {DType::f32, kCuda});
  kernels::embedding(DeviceType::cuda, weight.cuda, ids.cuda, out);
  CHECK_THROWS_WITH(
      synchronize(kCuda),
      Catch::Contains("[embedding] id out of range: given 9 at place 1, wanted 0 to 4"));
  const std::vector<double> taken = out.to_vector();
  for (size_t i = 0; i < 8; ++i) CHECK(taken[8 + i] == weight.cpu.to_vector()[i]);

  const Pair dout({3, 8}, DType::f32, 2), low = ids_of({1, -2, 1}, DType::i32);
  Tensor dweight = empty({5, 8}, {DType::f32, kCuda});
  kernels::embedding_backward(DeviceType::cuda, dout.cuda, low.cuda, dweight, false);
  CHECK_THROWS_WITH(synchronize(kCuda),
                    Catch::Contains("[embedding_backward] id out of range: given -2 at place 1"));
  std::vector<double> wanted(40, 0);
  const std::vector<double> rows = dout.cpu.to_vector();
  for (size_t i = 0; i < 8; ++i) {
    wanted[8 + i] = static_cast<float>(rows[i]) + static_cast<float>(rows[16 + i]);
  }
  CHECK(dweight.to_vector() == wanted);

  Tensor nothing = empty({0, 8}, {DType::f32, kCuda});
  kernels::index_add(DeviceType::cuda, dout.cuda, ids.cuda, nothing, 0);
  CHECK_THROWS_WITH(synchronize(kCuda), Catch::Contains("[index_add] id out of range"));
  kernels::index_select(DeviceType::cuda, nothing, ids.cuda, out, 0);
  CHECK_THROWS_WITH(synchronize(kCuda), Catch::Contains("[index_select] id out of range"));
}

}  // namespace tenon
