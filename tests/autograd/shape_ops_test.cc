// Views and joins.
#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Arrays = std::vector<Array>;

// The reference that reads element `source(index)` of the only input.
std::function<Array(const Arrays&)> gather(const Shape& shape,
                                           const std::function<Dims(const Dims&)>& source) {
  return [=](const Arrays& in) {
    Array y(shape);
    for_each_index(shape, [&](const Dims& i) { y[i] = in[0][source(i)]; });
    return y;
  };
}

// The reference that keeps the row-major order of the only input.
std::function<Array(const Arrays&)> reshaped_to(const Shape& shape) {
  return [=](const Arrays& in) {
    Array y = in[0];
    y.shape = shape;
    return y;
  };
}

TEST_CASE("reshape and flatten: values, gradients, layouts and dtypes") {
  check_op({"reshape",
            [](const Tensors& in) {
              return reshape(in[0], {2, 6});
            },
            reshaped_to({2, 6}),
            {{values({3, 4})}, {values({12})}, {values({2, 1, 3, 2})}}});
  check_op({"reshape, -1",
            [](const Tensors& in) {
              return reshape(in[0], {2, -1, 1});
            },
            reshaped_to({2, 6, 1}),
            {{values({3, 4})}, {values({2, 2, 3, 1})}}});
  check_op({"reshape, empty",
            [](const Tensors& in) {
              return reshape(in[0], {3, 0});
            },
            reshaped_to({3, 0}),
            {{values({0, 4})}}});
  check_op({"reshape, scalar",
            [](const Tensors& in) { return reshape(in[0], {}); },
            reshaped_to({}),
            {{values({1, 1})}, {values({})}}});
  check_op({"flatten",
            [](const Tensors& in) { return flatten(in[0], 1); },
            reshaped_to({2, 12}),
            {{values({2, 3, 4})}, {values({2, 3, 2, 2})}}});
  check_op({"flatten, first axes",
            [](const Tensors& in) { return flatten(in[0], 0, -2); },
            reshaped_to({6, 4}),
            {{values({2, 3, 4})}}});
}

TEST_CASE("permute and transpose: values, gradients, layouts and dtypes") {
  check_op({"permute",
            [](const Tensors& in) {
              return permute(in[0], {2, 0, -2});
            },
            gather({4, 2, 3},
                   [](const Dims& i) {
                     return Dims{i[1], i[2], i[0]};
                   }),
            {{values({2, 3, 4})}}});
  check_op({"transpose",
            [](const Tensors& in) { return transpose(in[0]); },
            gather({2, 4, 3},
                   [](const Dims& i) {
                     return Dims{i[0], i[2], i[1]};
                   }),
            {{values({2, 3, 4})}}});
  check_op({"transpose 0 2",
            [](const Tensors& in) { return transpose(in[0], 0, 2); },
            gather({4, 3, 2},
                   [](const Dims& i) {
                     return Dims{i[2], i[1], i[0]};
                   }),
            {{values({2, 3, 4})}}});
}

TEST_CASE("narrow and select: values, gradients, layouts and dtypes") {
  check_op({"narrow",
            [](const Tensors& in) { return narrow(in[0], 1, 2, 3); },
            gather({3, 3},
                   [](const Dims& i) {
                     return Dims{i[0], i[1] + 2};
                   }),
            {{values({3, 5})}}});
  check_op({"narrow, nothing",
            [](const Tensors& in) { return narrow(in[0], 0, 3, 0); },
            gather({0, 5}, [](const Dims& i) { return i; }),
            {{values({3, 5})}}});
  check_op({"select",
            [](const Tensors& in) { return select(in[0], 0, 1); },
            gather({5},
                   [](const Dims& i) {
                     return Dims{1, i[0]};
                   }),
            {{values({3, 5})}}});
  check_op({"select, from the end",
            [](const Tensors& in) { return select(in[0], -1, -2); },
            gather({2, 3},
                   [](const Dims& i) {
                     return Dims{i[0], i[1], 2};
                   }),
            {{values({2, 3, 4})}}});
}

TEST_CASE("unsqueeze, squeeze and expand: values, gradients, layouts and dtypes") {
  check_op({"unsqueeze",
            [](const Tensors& in) { return unsqueeze(in[0], 1); },
            reshaped_to({3, 1, 4}),
            {{values({3, 4})}}});
  check_op({"unsqueeze, last",
            [](const Tensors& in) { return unsqueeze(in[0], -1); },
            reshaped_to({3, 4, 1}),
            {{values({3, 4})}}});
  check_op({"squeeze",
            [](const Tensors& in) { return squeeze(in[0], 1); },
            reshaped_to({3, 4}),
            {{values({3, 1, 4})}}});
  check_op(
      {"expand",
       [](const Tensors& in) {
         return expand(in[0], {2, 3, 4});
       },
       [](const Arrays& in) {
         Array y(Shape{2, 3, 4});
         for_each_index(y.shape, [&](const Dims& i) { y[i] = in[0].broadcast(i); });
         return y;
       },
       {{values({3, 1})}, {values({4})}, {values({})}, {values({2, 3, 4})}, {values({2, 1, 4})}}});
  check_op({"expand to nothing",
            [](const Tensors& in) {
              return expand(in[0], {0, 3});
            },
            [](const Arrays&) {
              return Array(Shape{0, 3});
            },
            {{values({1, 3})}}});
}

TEST_CASE("contiguous and clone: values, gradients, layouts and dtypes") {
  check_op({"contiguous",
            [](const Tensors& in) { return contiguous(transpose(in[0])); },
            gather({4, 3},
                   [](const Dims& i) {
                     return Dims{i[1], i[0]};
                   }),
            {{values({3, 4})}}});
  check_op({"clone",
            [](const Tensors& in) { return clone(in[0]); },
            [](const Arrays& in) { return in[0]; },
            {{values({3, 4})}, {values({0})}}});
  const Tensor x = ones({2, 3});
  CHECK(contiguous(x).is_same(x));
  CHECK(contiguous(transpose(x)).is_contiguous());
  CHECK(clone(x).storage() != x.storage());
}

Array joined(const Arrays& in, int axis) {
  Shape shape = in[0].shape;
  shape[axis] = 0;
  for (const Array& part : in) shape[axis] += part.shape[axis];
  Array y(shape);
  for_each_index(shape, [&](const Dims& i) {
    Dims at = i;
    size_t which = 0;
    while (at[axis] >= in[which].shape[axis]) at[axis] -= in[which++].shape[axis];
    y[i] = in[which][at];
  });
  return y;
}

TEST_CASE("concat and stack: values, gradients, layouts and dtypes") {
  check_op({"concat 0",
            [](const Tensors& in) { return concat(in); },
            [](const Arrays& in) { return joined(in, 0); },
            {{values({2, 3}), values({1, 3})}, {values({2}), values({0}), values({3})}}});
  check_op({"concat -1",
            [](const Tensors& in) { return concat(in, -1); },
            [](const Arrays& in) { return joined(in, in[0].shape.size() - 1); },
            {{values({2, 3}), values({2, 1}), values({2, 4})}, {values({2, 3, 1, 2})}}});
  check_op({"stack",
            [](const Tensors& in) { return stack(in, 1); },
            [](const Arrays& in) {
              Array y(Shape{3, 2, 4});
              for_each_index(y.shape, [&](const Dims& i) {
                y[i] = in[static_cast<size_t>(i[1])][Dims{i[0], i[2]}];
              });
              return y;
            },
            {{values({3, 4}), values({3, 4})}}});
  check_op({"stack scalars",
            [](const Tensors& in) { return stack(in); },
            [](const Arrays& in) {
              Array y(Shape{2});
              y.values = {in[0].values[0], in[1].values[0]};
              return y;
            },
            {{values({}), values({})}}});
  CHECK(concat({arange(2), arange(3)}).to_vector() == Numbers{0, 1, 0, 1, 2});
}

TEST_CASE("views share memory with their input") {
  const Tensor x = zeros({2, 3, 4});
  for (const Tensor& view :
       {reshape(x, {6, 4}), flatten(x), permute(x, {2, 0, 1}), transpose(x), narrow(x, 1, 1, 2),
        select(x, 0, 1), unsqueeze(x, 0), squeeze(unsqueeze(x, 0), 0), expand(x, {2, 2, 3, 4}),
        reshape(transpose(x), {2, 2, 2, 3}), reshape(narrow(x, 2, 0, 2), {6, 2})}) {
    CHECK(view.storage() == x.storage());
  }
  // What no strides can say is copied.
  CHECK(reshape(transpose(x), {2, 12}).storage() != x.storage());
  CHECK(reshape(narrow(x, 2, 0, 2), {12}).storage() != x.storage());
}

TEST_CASE("reshape of views agrees with reshape of their copies") {
  const Tensor x = arange(120, {.dtype = DType::f64});
  const Tensor base = reshape(x, {2, 3, 4, 5});
  for (const Tensor& view :
       {permute(base, {1, 0, 2, 3}), permute(base, {0, 3, 1, 2}), narrow(base, 0, 1, 1),
        narrow(base, 1, 0, 2), transpose(base), expand(narrow(base, 0, 0, 1), {2, 3, 4, 5}),
        unsqueeze(transpose(base), 2)}) {
    const int64_t n = view.numel();
    for (const Shape& shape : {Shape{n}, Shape{n / 2, 2}, Shape{2, n / 2}, Shape{n / 10, 1, 10},
                               Shape{1, n / 20, 20, 1}, Shape{n / 20, 4, 5}}) {
      if (shape.numel() != n) continue;
      INFO("strides " << str(view.strides()) << " to " << str(shape));
      CHECK(reshape(view, shape).to_vector() == view.to_vector());
    }
  }
}

TEST_CASE("shape ops: wrong arguments") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(reshape(x, {4, 2}),
                    "[reshape] sizes do not fit: given (2, 3) and (4, 2), wanted 6 elements");
  CHECK_THROWS_WITH(reshape(x, {-1, -1}), "[reshape] two unknown sizes: given (-1, -1)");
  CHECK_THROWS_WITH(reshape(x, {-1, 4}), Contains("[reshape] sizes do not fit"));
  CHECK_THROWS_WITH(reshape(ones({0}), {-1, 0}), Contains("[reshape] sizes do not fit"));
  CHECK_THROWS_WITH(reshape(x, {-2, -3}), Contains("negative size"));
  CHECK_THROWS_WITH(permute(x, {0}), "[permute] wrong number of axes: given 1, wanted 2");
  CHECK_THROWS_WITH(permute(x, {0, 0}), "[permute] axis 0 given twice");
  CHECK_THROWS_WITH(transpose(x, 0, 2), Contains("[transpose] axis out of range"));
  CHECK_THROWS_WITH(narrow(x, 1, 2, 2),
                    "[narrow] outside the tensor: given start 2 and length 2, axis 1 has 3");
  CHECK_THROWS_AS(narrow(x, 1, -1, 1), Error);
  CHECK_THROWS_WITH(select(x, 1, 3), "[select] index out of range: given 3, axis 1 has 3");
  CHECK_THROWS_WITH(squeeze(x, 0), "[squeeze] axis of more than one entry: given (2, 3), axis 0");
  CHECK_THROWS_WITH(flatten(x, 1, 0), "[flatten] first axis 1 after last axis 0");
  CHECK_THROWS_WITH(expand(x, {3, 3}), Contains("[expand] shapes do not broadcast"));
  CHECK_THROWS_WITH(expand(x, {3}), Contains("[expand]"));
  CHECK_THROWS_WITH(concat({}), "[concat] no tensors given: wanted at least one");
  CHECK_THROWS_WITH(concat({x, ones({2, 4})}),
                    Contains("[concat] shapes do not fit: given (2, 3) and (2, 4)"));
  CHECK_THROWS_WITH(concat({x, ones({3})}), Contains("[concat] shapes do not fit"));
  CHECK_THROWS_WITH(concat({x, ones({2, 3}, {.dtype = DType::f64})}),
                    Contains("[concat] dtypes differ"));
}

}  // namespace
}  // namespace tenon
