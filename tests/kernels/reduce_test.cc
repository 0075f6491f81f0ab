#include "tenon/kernels/reduce.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tenon/core/rank_context.h"
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

Shape reduced_shape(const Shape& shape, kernels::AxisMask axes) {
  Shape result = shape;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if ((axes >> axis & 1u) != 0) result[axis] = 1;
  }
  return result;
}

Dims reduced_index(Dims index, kernels::AxisMask axes) {
  for (int axis = 0; axis < index.size(); ++axis) {
    if ((axes >> axis & 1u) != 0) index[axis] = 0;
  }
  return index;
}

void check_sum(const Tensor& x, kernels::AxisMask axes, DType dtype, double scale,
               bool accumulate) {
  const Shape shape = reduced_shape(x.shape(), axes);
  Tensor out = random_tensor(shape, dtype, 9);
  Array wanted = accumulate ? Array(out) : Array(shape);
  const Array values(x);
  for_each_index(x.shape(), [&](const Dims& index) {
    wanted[reduced_index(index, axes)] += scale * values[index];
  });
  kernels::sum(testing::device_type(), x, out, axes, scale, accumulate);
  INFO("axes " << axes << " of " << describe(x) << " strides " << x.strides());
  CHECK(max_error(out.to_vector(), wanted.values) < tolerance(dtype));
}

}  // namespace

TEST_CASE("sums over every set of axes agree with the naive loop") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 0, 2}, Shape{2, 3, 5, 7}, Shape{1, 4}}) {
    for (const DType dtype : kFloating) {
      for (const Layout layout : kLayouts) {
        if (!applies(layout, shape)) continue;
        const Tensor values = random_tensor(shape, DType::f64, 1);
        const Tensor x = make_tensor(values.to_vector(), shape, dtype, layout);
        for (kernels::AxisMask axes = 0; axes < 1u << shape.size(); ++axes) {
          check_sum(x, axes, dtype, 1, false);
          check_sum(x, axes, dtype, 0.5, true);
        }
      }
    }
  }
}

TEST_CASE("sums of long rows and columns agree with the naive loop") {
  for (const Shape& shape :
       {Shape{3000, 10}, Shape{10, 3000}, Shape{70, 1100}, Shape{5, 40, 200}}) {
    for (const Layout layout : kLayouts) {
      if (!applies(layout, shape)) continue;
      std::vector<double> values = random_tensor(shape, DType::f64, 1).to_vector();
      for (double& value : values) value += 1.1;  // no cancellation
      const Tensor x = make_tensor(values, shape, DType::f32, layout);
      for (kernels::AxisMask axes = 0; axes < 1u << shape.size(); ++axes) {
        check_sum(x, axes, DType::f32, 1, false);
      }
    }
  }
}

TEST_CASE("sums of 16-bit elements can go to f32") {
  const Tensor x = random_tensor({50, 30}, DType::bf16, 1);
  check_sum(x, 1, DType::f32, 1, true);
  check_sum(x, 3, DType::f32, 1, false);
}

TEST_CASE("integers are summed exactly") {
  for (const DType dtype : {DType::i64, DType::i32}) {
    Tensor x = arange(1000, {.dtype = dtype}).alias(0, {10, 100});
    Tensor out = zeros({1, 1}, {.dtype = dtype});
    kernels::sum(testing::device_type(), x, out, 3, 1, false);
    CHECK(out.item<double>() == 499500);
  }
  const Tensor large = from_data<int64_t>({int64_t{1} << 60, 1}, {2});
  Tensor out = zeros({1}, {.dtype = DType::i64});
  kernels::sum(testing::device_type(), large, out, 1, 1, false);
  CHECK(out.item<int64_t>() == (int64_t{1} << 60) + 1);
}

TEST_CASE("a sum of a million elements in f32 is accurate to 1e-6 along any axis") {
  std::vector<float> values(1 << 20);
  double wanted = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1f + 0.7f * static_cast<float>(i % 17);
    wanted += static_cast<double>(values[i]);
  }
  const Tensor x = from_data(values, {1 << 20});
  for (const Shape& shape : {Shape{1 << 20, 1}, Shape{1 << 19, 2}, Shape{1 << 10, 1 << 10}}) {
    const Tensor matrix = x.alias(0, shape);
    Tensor columns = empty({1, shape[1]}), total = empty({1, 1});
    kernels::sum(testing::device_type(), matrix, columns, 1, 1, false);
    double sum = 0;
    for (const double value : columns.to_vector()) sum += value;
    CHECK(std::abs(sum - wanted) / wanted < 1e-6);
    kernels::sum(testing::device_type(), matrix, total, 3, 1, false);
    CHECK(std::abs(total.item<double>() - wanted) / wanted < 1e-6);
  }
}

TEST_CASE("sums have the same bits with one thread and several") {
  const Tensor x = random_tensor({301, 999}, DType::f32, 1);
  const int before = num_threads();
  for (const kernels::AxisMask axes : {1u, 2u, 3u}) {
    const Shape shape = reduced_shape(x.shape(), axes);
    Tensor one = empty(shape), several = empty(shape);
    set_num_threads(1);
    kernels::sum(testing::device_type(), x, one, axes, 1, false);
    set_num_threads(3);
    kernels::sum(testing::device_type(), x, several, axes, 1, false);
    CHECK(testing::same_bits(one, several));
  }
  set_num_threads(before);
}

namespace {

// Naive max or min along `axis`.
void check_extremes(const Tensor& x, int axis) {
  const Shape shape = reduced_shape(x.shape(), 1u << axis);
  for (const bool largest : {true, false}) {
    Tensor values = empty(shape, {.dtype = x.dtype()});
    Tensor indices = empty(shape, {.dtype = DType::i64});
    (largest ? kernels::max : kernels::min)(testing::device_type(), x, values, indices, axis);
    const Array in(x);
    Array best(shape), place(shape);
    for_each_index(x.shape(), [&](const Dims& index) {
      const Dims to = reduced_index(index, 1u << axis);
      const double value = in[index];
      const bool wins = largest ? value > best[to] : value < best[to];
      if (index[axis] == 0 || wins || (std::isnan(value) && !std::isnan(best[to]))) {
        best[to] = value;
        place[to] = static_cast<double>(index[axis]);
      }
    });
    INFO((largest ? "max" : "min")
         << " along " << axis << " of " << describe(x) << " strides " << x.strides());
    CHECK(indices.to_vector() == place.values);
    const std::vector<double> got = values.to_vector();
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK((got[i] == best.values[i] || (std::isnan(got[i]) && std::isnan(best.values[i]))));
    }
  }
}

}  // namespace

TEST_CASE("max and min find the first extreme along every axis") {
  for (const Shape& shape : {Shape{1}, Shape{40}, Shape{2, 3, 5, 7}, Shape{9, 70}}) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape.numel(); ++i) {
      values.push_back(static_cast<double>(i * 7 % 5));  // with many equal ones
    }
    for (const DType dtype :
         {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
      for (const Layout layout : kLayouts) {
        if (!applies(layout, shape)) continue;
        const Tensor x = make_tensor(values, shape, dtype, layout);
        for (int axis = 0; axis < shape.size(); ++axis) check_extremes(x, axis);
      }
    }
  }
  for (const int64_t length : {15, 16, 17, 1023, 2500}) {
    check_extremes(random_tensor({length}, DType::f32, 1), 0);
    check_extremes(random_tensor({9, length}, DType::f32, 1), 1);
    check_extremes(random_tensor({length, 9}, DType::f32, 1), 0);
  }
}

TEST_CASE("max and min prefer the first NaN and handle infinities") {
  for (const std::vector<double>& row :
       std::vector<std::vector<double>>{{1, NAN, INFINITY, NAN},
                                        {NAN, 1, 2, 3},
                                        {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                        {INFINITY, INFINITY, INFINITY, INFINITY},
                                        {-INFINITY, 3, INFINITY, 3}}) {
    const Tensor x = from_vector(row, {4});
    check_extremes(x, 0);
    check_extremes(x.as_strided({4, 20}, {1, 0}), 0);
  }
  Tensor values = empty({1}), indices = empty({1}, {.dtype = DType::i64});
  CHECK_THROWS_WITH(kernels::max(testing::device_type(), empty({0}), values, indices, 0),
                    Catch::Contains("[max] nothing to choose from"));
}

TEST_CASE("scatter_add puts gradients where the indices say") {
  for (const DType dtype : kFloating) {
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor x = random_tensor({4, 5, 6}, dtype, 1);
      const Shape shape = reduced_shape(x.shape(), 1u << axis);
      Tensor values = empty(shape, {.dtype = dtype}), dx = zeros(x.shape(), {.dtype = dtype});
      Tensor indices = empty(shape, {.dtype = DType::i64});
      kernels::max(testing::device_type(), x, values, indices, axis);
      kernels::scatter_add(testing::device_type(), values, indices, dx, axis);
      kernels::scatter_add(testing::device_type(), values, indices, dx, axis);
      Array wanted(x.shape());
      const Array top(values), place(indices);
      for_each_index(shape, [&](const Dims& index) {
        Dims to = index;
        to[axis] = static_cast<int64_t>(place[index]);
        wanted[to] = 2 * top[index];
      });
      CHECK(dx.to_vector() == wanted.values);
    }
  }
}

TEST_CASE("power_sum adds powers over tensors of any dtype and layout") {
  std::vector<Tensor> tensors;
  for (const DType dtype : kFloating) {
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::narrowed}) {
      const Shape shape{30, 70};
      const Tensor values = random_tensor(shape, DType::f64, 3);
      tensors.push_back(make_tensor(values.to_vector(), shape, dtype, layout));
    }
  }
  tensors.push_back(empty({0}));
  tensors.push_back(random_tensor({70001}, DType::f32, 5));
  for (const double p : {1.0, 2.0, 3.0, 0.5, static_cast<double>(INFINITY)}) {
    double wanted = 0;
    for (const Tensor& tensor : tensors) {
      for (const double x : tensor.to_vector()) {
        wanted = std::isinf(p) ? std::max(wanted, std::abs(x)) : wanted + std::pow(std::abs(x), p);
      }
    }
    Tensor out = empty({}, {.dtype = DType::f64});
    kernels::power_sum(testing::device_type(), tensors, p, out);
    CHECK(out.item<double>() == Approx(wanted).epsilon(1e-6));
  }
  Tensor out = empty({}, {.dtype = DType::f64});
  kernels::power_sum(testing::device_type(), {from_vector({1, NAN, 2}, {3})}, INFINITY, out);
  CHECK(std::isnan(out.item<double>()));
  kernels::power_sum(testing::device_type(), {}, 2, out);
  CHECK(out.item<double>() == 0);
}

}  // namespace tenon
