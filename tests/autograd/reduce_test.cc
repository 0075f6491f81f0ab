// Reductions.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Arrays = std::vector<Array>;
using Axes = std::vector<int>;

bool contains(const Axes& axes, int axis, int rank) {
  return axes.empty() || std::any_of(axes.begin(), axes.end(),
                                     [&](int a) { return a == axis || a + rank == axis; });
}

// Sums, or means, over the axes.
Array reduced(const Array& x, const Axes& axes, bool keepdim, bool average) {
  Shape kept = x.shape, dropped;
  for (int i = 0; i < kept.size(); ++i) {
    if (contains(axes, i, x.shape.size())) {
      kept[i] = 1;
    } else {
      dropped.push_back(kept[i]);
    }
  }
  Array y(kept);
  for_each_index(x.shape, [&](const Dims& i) {
    Dims to = i;
    for (int axis = 0; axis < to.size(); ++axis) {
      if (kept[axis] == 1) to[axis] = 0;
    }
    y[to] += x[i];
  });
  const double count = static_cast<double>(x.shape.numel()) / static_cast<double>(kept.numel());
  for (double& value : y.values) value = average ? value / count : value;
  if (!keepdim) y.shape = dropped;
  return y;
}

TEST_CASE("sum and mean: values, gradients, layouts and dtypes") {
  struct Case {
    Axes axes;
    bool keepdim;
    std::vector<std::vector<Input>> inputs;
  };
  const std::vector<Case> cases{
      {{}, false, {{values({3, 4})}, {values({})}, {values({2, 3, 2, 2})}, {values({1})}}},
      {{}, true, {{values({3, 4})}}},
      {{0}, false, {{values({3, 4})}, {values({5})}, {values({2, 3, 4})}}},
      {{-1}, true, {{values({3, 4})}, {values({2, 3, 4})}}},
      {{1}, false, {{values({2, 3, 4})}, {values({3, 1})}}},
      {{0, 2}, false, {{values({2, 3, 4})}}},
      {{-1, 0}, true, {{values({2, 3, 4})}, {values({2, 3, 2, 2})}}},
      {{0, 2, 3}, false, {{values({2, 3, 2, 2})}}},
      {{1}, false, {{values({0, 3})}}},
  };
  for (const Case& c : cases) {
    check_op(
        {.name = "sum",
         .function = [&](const Tensors& in) { return sum(in[0], c.axes, c.keepdim); },
         .reference = [&](const Arrays& in) { return reduced(in[0], c.axes, c.keepdim, false); },
         .inputs = c.inputs});
    check_op(
        {.name = "mean",
         .function = [&](const Tensors& in) { return mean(in[0], c.axes, c.keepdim); },
         .reference = [&](const Arrays& in) { return reduced(in[0], c.axes, c.keepdim, true); },
         .inputs = c.inputs});
  }
}

TEST_CASE("sum and mean: of nothing, of integers and of many") {
  CHECK(sum(zeros({0, 3})).item() == 0);
  CHECK(sum(zeros({0, 3}), {0}).to_vector() == Numbers{0, 0, 0});
  CHECK(std::isnan(mean(zeros({0, 3})).item()));
  CHECK(sum(arange(5)).item<int64_t>() == 10);
  CHECK(sum(arange(6, {.dtype = DType::i32}).alias(0, {2, 3}), {0}).to_vector() ==
        Numbers{3, 5, 7});
  const int64_t large = int64_t{1} << 60;
  CHECK(sum(from_data<int64_t>({large, 1}, {2})).item<int64_t>() == large + 1);
  CHECK_THROWS_WITH(mean(arange(5)), Contains(here("[mean] wrong dtype: given i64 (5) on cpu")));
  // 16-bit formats add in f32: in bf16 itself 256 + 1 would stay 256 for ever.
  CHECK(sum(ones({100, 100}, {.dtype = DType::bf16})).item() == 9984);  // 10000 rounded to bf16
  CHECK(mean(ones({100, 100}, {.dtype = DType::f16})).item() == 1);
  Numbers numbers;
  double exact = 0;
  for (int i = 0; i < 100000; ++i) {
    numbers.push_back(static_cast<double>(static_cast<float>(std::sin(i))));
    exact += numbers.back();
  }
  CHECK(sum(from_vector(numbers, {100000})).item<double>() == Approx(exact).margin(2e-3));
  CHECK(sum(from_vector(numbers, {1000, 100})).item<double>() == Approx(exact).margin(2e-3));
}

// The largest (sign 1) or smallest (sign -1) along `axis`, or its first place.
Array extreme(const Array& x, int axis, bool keepdim, double sign, bool place) {
  Shape kept = x.shape;
  kept[axis] = 1;
  Array best(kept, -std::numeric_limits<double>::infinity()), places(kept);
  for_each_index(x.shape, [&](const Dims& i) {
    Dims to = i;
    to[axis] = 0;
    if (sign * x[i] > best[to]) {
      best[to] = sign * x[i];
      places[to] = static_cast<double>(i[axis]);
    }
  });
  Array y = place ? places : map(best, [&](double value) { return sign * value; });
  if (!keepdim) y.shape.erase(axis);
  return y;
}

TEST_CASE("max, min, argmax and argmin: values, gradients, layouts and dtypes") {
  for (const bool keepdim : {false, true}) {
    for (const int axis : {0, 1}) {
      const std::vector<std::vector<Input>> inputs{
          {values({3, 5})}, {values({4, 1})}, {values({1, 3})}, {values({2, 3, 2, 2})}};
      check_op(
          {.name = "max",
           .function = [&](const Tensors& in) { return max(in[0], axis, keepdim); },
           .reference = [&](const Arrays& in) { return extreme(in[0], axis, keepdim, 1, false); },
           .inputs = inputs});
      check_op(
          {.name = "min",
           .function = [&](const Tensors& in) { return min(in[0], axis, keepdim); },
           .reference = [&](const Arrays& in) { return extreme(in[0], axis, keepdim, -1, false); },
           .inputs = inputs});
      check_op(
          {.name = "argmax",
           .function = [&](const Tensors& in) { return argmax(in[0], axis, keepdim); },
           .reference = [&](const Arrays& in) { return extreme(in[0], axis, keepdim, 1, true); },
           .inputs = inputs,
           .gradient = false});
      check_op(
          {.name = "argmin",
           .function = [&](const Tensors& in) { return argmin(in[0], axis, keepdim); },
           .reference = [&](const Arrays& in) { return extreme(in[0], axis, keepdim, -1, true); },
           .inputs = inputs,
           .gradient = false});
    }
  }
}

TEST_CASE("max and min: the first of equal values counts, NaN wins, integers work") {
  const Tensor x = set_requires_grad(from_vector({1, 5, 5, 2}, {4}, {.dtype = DType::f64}));
  max(x, 0).backward();
  CHECK(x.grad().to_vector() == Numbers{0, 1, 0, 0});
  CHECK(argmax(x, 0).item<int64_t>() == 1);
  CHECK(argmax(x, 0).dtype() == DType::i64);
  CHECK(argmin(full({3}, 2), -1).item<int64_t>() == 0);
  const Tensor with_nan = from_vector({1, std::nan(""), 5, std::nan("")}, {4});
  CHECK(std::isnan(max(with_nan, 0).item()));
  CHECK(std::isnan(min(with_nan, 0).item()));
  CHECK(argmax(with_nan, 0).item<int64_t>() == 1);
  CHECK(argmin(with_nan, 0).item<int64_t>() == 1);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(max(full({3}, -infinity), 0).item() == -infinity);
  CHECK(argmax(full({3}, -infinity), 0).item<int64_t>() == 0);
  CHECK(max(arange(5), 0).item<int64_t>() == 4);
  CHECK(max(zeros({0, 3}), 1).shape() == Shape{0});
  // Long rows, where whole vectors are compared at once.
  Numbers numbers;
  for (int i = 0; i < 1000; ++i) numbers.push_back((i * 7919) % 1009);
  const auto largest = std::max_element(numbers.begin(), numbers.end());
  const Tensor row = from_vector(numbers, {1000});
  CHECK(max(row, 0).item() == *largest);
  CHECK(argmax(row, 0).item<int64_t>() == largest - numbers.begin());
}

TEST_CASE("sum_to: undoes broadcasting") {
  const Tensor x = arange(24, {.dtype = DType::f64}).alias(0, {2, 3, 4});
  for (const Shape& shape :
       {Shape{3, 1}, Shape{4}, Shape{}, Shape{2, 1, 4}, Shape{1, 1, 1}, Shape{2, 3, 4}}) {
    Array wanted(shape);
    const Array all(x);
    for_each_index(all.shape, [&](const Dims& i) {
      Dims to = shape;
      const int offset = i.size() - shape.size();
      for (int k = 0; k < shape.size(); ++k) to[k] = shape[k] == 1 ? 0 : i[offset + k];
      wanted[to] += all[i];
    });
    CHECK(sum_to(x, shape).shape() == shape);
    CHECK(sum_to(x, shape).to_vector() == wanted.values);
  }
  CHECK_THROWS_AS(sum_to(x, {2}), Error);
  CHECK_THROWS_AS(sum_to(ones({1}), {3}), Error);
}

TEST_CASE("reductions: wrong arguments") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(sum(x, {2}), "[sum] axis out of range: given 2, wanted within [-2, 1]");
  CHECK_THROWS_WITH(mean(x, {0, -2}), "[mean] axis -2 given twice");
  CHECK_THROWS_WITH(max(zeros({0, 3}), 0),
                    "[max] empty axis: given (0, 3), axis 0, wanted at least one element");
  CHECK_THROWS_WITH(argmax(ones({}), 0), Contains("[argmax] axis out of range"));
}

}  // namespace
}  // namespace tenon
