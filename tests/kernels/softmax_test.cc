#include "tenon/kernels/softmax.h"

#include <catch2/catch.hpp>
#include <cmath>

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

// Sum along `axis`, of size 1 there.
Array sum_along(const Array& x, int axis) {
  Shape shape = x.shape;
  shape[axis] = 1;
  Array sums(shape);
  for_each_index(x.shape, [&](Dims index) {
    const double value = x[index];
    index[axis] = 0;
    sums[index] += value;
  });
  return sums;
}

Array exp_of(const Array& x) {
  return testing::map(x, [](double value) { return std::exp(value); });
}

void check(const Tensor& x, const Tensor& dy, Tensor out, int axis) {
  INFO("axis " << axis << " of " << describe(x) << " strides " << x.strides());
  const Array exps = exp_of(Array(x));
  const Array y = testing::zip(exps, sum_along(exps, axis), std::divides<double>());
  const Array log_y = testing::map(y, [](double value) { return std::log(value); });
  const double limit = 2 * tolerance(x.dtype());
  kernels::softmax(testing::device_type(), x, out, axis);
  CHECK(max_error(out.to_vector(), y.values) < limit);
  const Array saved(out);
  const Array grad(dy);
  const Array dot = sum_along(testing::zip(saved, grad, std::multiplies<double>()), axis);
  const Array wanted =
      testing::zip(saved, testing::zip(grad, dot, std::minus<double>()), std::multiplies<double>());
  Tensor dx = empty_like(out);
  kernels::softmax_backward(testing::device_type(), out, dy, dx, axis);
  CHECK(max_error(dx.to_vector(), wanted.values) < limit);

  kernels::log_softmax(testing::device_type(), x, out, axis);
  CHECK(max_error(out.to_vector(), log_y.values) < limit);
  const Array total = sum_along(grad, axis);
  const Array log_wanted =
      testing::zip(grad, testing::zip(exp_of(Array(out)), total, std::multiplies<double>()),
                   std::minus<double>());
  kernels::log_softmax_backward(testing::device_type(), out, dy, dx, axis);
  CHECK(max_error(dx.to_vector(), log_wanted.values) < limit);
}

}  // namespace

TEST_CASE("softmax and log-softmax agree with the definition along every axis") {
  for (const Shape& shape :
       {Shape{1}, Shape{0}, Shape{3, 0, 2}, Shape{2, 3, 5, 7}, Shape{33, 40}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const Layout layout : kLayouts) {
        if (!applies(layout, shape)) continue;
        const Tensor values = random_tensor(shape, DType::f64, 1);
        const Tensor x = make_tensor(values.to_vector(), shape, dtype, layout);
        const Tensor dy = random_tensor(shape, dtype, 2);
        const Layout out = layout == Layout::repeated ? Layout::contiguous : layout;
        for (int axis = 0; axis < shape.size(); ++axis) {
          check(x, dy, make_tensor(values.to_vector(), shape, dtype, out), axis);
          check(x, dy, empty(shape, {.dtype = dtype}), axis);
        }
      }
    }
  }
}

TEST_CASE("softmax of rows longer than a chunk agrees with the definition") {
  const Tensor x = random_tensor({3, 2600}, DType::f32, 1);
  check(x, random_tensor({3, 2600}, DType::f32, 2), empty({3, 2600}), 1);
  const Tensor turned = random_tensor({2600, 300}, DType::bf16, 1);
  check(turned, random_tensor({2600, 300}, DType::bf16, 2),
        empty({2600, 300}, {.dtype = DType::bf16}), 0);
}

TEST_CASE("softmax is stable for large and for masked values") {
  for (const int64_t length : {4, 3000}) {
    std::vector<double> values(static_cast<size_t>(length), -INFINITY);
    values[1] = values.back() = 1000;
    for (const int axis : {0, 1}) {
      const Tensor row = from_vector(values, {1, length});
      const Tensor x = axis == 1 ? row : row.as_strided({length, 20}, {1, 0});
      Tensor y = empty(x.shape());
      kernels::softmax(testing::device_type(), x, y, axis);
      const Array got(y);
      CHECK(got[axis == 1 ? Dims{0, 0} : Dims{0, 5}] == 0);
      CHECK(got[axis == 1 ? Dims{0, 1} : Dims{1, 5}] == 0.5);
      kernels::log_softmax(testing::device_type(), x, y, axis);
      CHECK(Array(y)[axis == 1 ? Dims{0, 1} : Dims{1, 5}] == Approx(-std::log(2.0)));
      CHECK(Array(y)[axis == 1 ? Dims{0, 0} : Dims{0, 5}] == -INFINITY);
    }
  }
  Tensor y = empty({2});
  kernels::softmax(testing::device_type(), from_vector({NAN, 1}, {2}), y, 0);
  CHECK(std::isnan(y.to_vector()[1]));
}

}  // namespace tenon
