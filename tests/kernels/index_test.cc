// Embedding, index_select and their transposes.
#include <catch2/catch.hpp>

#include "tenon/kernels/copy.h"
#include "tenon/kernels/embedding.h"
#include "tenon/tests/support/array.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::applies;
using testing::Array;
using testing::for_each_index;
using testing::kLayouts;
using testing::Layout;
using testing::make_tensor;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Tensor some_ids(int64_t count, int64_t limit, DType dtype) {
  std::vector<double> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<double>(i * i * 3 % limit));
  return from_vector(ids, {count}, {.dtype = dtype});
}

}  // namespace

TEST_CASE("index_select and index_add agree with the naive loop along every axis") {
  for (const DType dtype : kFloating) {
    for (const Layout layout : kLayouts) {
      for (int axis = 0; axis < 4; ++axis) {
        const Shape shape{4, 5, 6, 3};
        const Tensor values = random_tensor(shape, DType::f64, 1);
        const Tensor x = make_tensor(values.to_vector(), shape, dtype, layout);
        const Tensor ids = some_ids(7, shape[axis], axis % 2 == 0 ? DType::i64 : DType::i32);
        Shape taken = shape;
        taken[axis] = 7;
        Tensor out = empty(taken, {.dtype = dtype});
        Tensor sum = random_tensor(shape, dtype, 3);
        Array wanted(taken), wanted_sum(sum);
        const Array in(x), places(ids);
        const Tensor dout = random_tensor(taken, dtype, 2);
        for_each_index(taken, [&](const Dims& index) {
          Dims from = index;
          from[axis] = static_cast<int64_t>(places[{index[axis]}]);
          wanted[index] = in[from];
          wanted_sum[from] += Array(dout)[index];
        });
        INFO(describe(x) << " " << name_of(layout) << " axis " << axis);
        kernels::index_select(testing::device_type(), x, ids, out, axis);
        CHECK(out.to_vector() == wanted.values);
        kernels::index_add(testing::device_type(), dout, ids, sum, axis);
        CHECK(max_error(sum.to_vector(), wanted_sum.values) < 4 * tolerance(dtype));
      }
    }
  }
}

TEST_CASE("index_select takes integers and booleans") {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const Tensor x = from_vector({0, 1, 1, 0}, {4}, {.dtype = dtype});
    Tensor out = empty({2}, {.dtype = dtype});
    kernels::index_select(testing::device_type(), x, from_data<int64_t>({3, 1}, {2}), out, 0);
    CHECK(out.to_vector() == std::vector<double>{0, 1});
  }
}

TEST_CASE("embedding looks rows up and its backward adds them up") {
  for (const DType dtype : kFloating) {
    for (const int64_t width : {1, 10, 1500}) {
      const Tensor weight = random_tensor({6, width}, dtype, 1);
      const Tensor dout = random_tensor({9, width}, dtype, 2);
      const Tensor ids = some_ids(9, 6, DType::i64);
      Tensor out = empty({9, width}, {.dtype = dtype});
      kernels::embedding(testing::device_type(), weight, ids, out);
      Array wanted({9, width}), sum({6, width});
      const Array places(ids), table(weight), grad(dout);
      for_each_index({9, width}, [&](const Dims& i) {
        const Dims from{static_cast<int64_t>(places[{i[0]}]), i[1]};
        wanted[i] = table[from];
        sum[from] += grad[i];
      });
      CHECK(out.to_vector() == wanted.values);
      for (const DType grad_dtype : {dtype, compute_dtype(dtype)}) {
        Tensor dweight = full({6, width}, 77, {.dtype = grad_dtype});
        kernels::embedding_backward(testing::device_type(), dout, ids, dweight, false);
        CHECK(max_error(dweight.to_vector(), sum.values) < 4 * tolerance(grad_dtype));
        kernels::embedding_backward(testing::device_type(), dout, ids, dweight, true);
        std::vector<double> twice = sum.values;
        for (double& value : twice) value *= 2;
        CHECK(max_error(dweight.to_vector(), twice) < 8 * tolerance(grad_dtype));
      }
    }
  }
}

TEST_CASE("an id out of range is an error with its place") {
  const Tensor weight = random_tensor({3, 2});
  Tensor out = empty({2, 2});
  const Tensor high = from_data<int64_t>({1, 3}, {2}), low = from_data<int32_t>({-1, 0}, {2});
  CHECK_THROWS_WITH(
      testing::settled([&] { kernels::embedding(testing::device_type(), weight, high, out); }),
      Catch::Contains("[embedding] id out of range: given 3 at place 1"));
  CHECK_THROWS_WITH(
      testing::settled([&] { kernels::index_select(testing::device_type(), weight, low, out, 0); }),
      Catch::Contains("[index_select] id out of range: given -1 at place 0"));
  Tensor none = empty({0, 2});
  kernels::embedding(testing::device_type(), weight, empty({0}, {.dtype = DType::i64}), none);
}

}  // namespace tenon
