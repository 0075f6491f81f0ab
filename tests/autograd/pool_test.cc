// 2-d pooling.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/conv.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Arrays = std::vector<Array>;

// f over the window of each element of the result: the values within the image, in order, and
// their number with padding.
Array pool_reference(const Array& x, const PoolParams& p,
                     const std::function<double(const Numbers&, double)>& f) {
  auto size = [&](int64_t n, size_t axis) {
    return (n + 2 * p.padding[axis] - p.kernel[axis]) / p.stride[axis] + 1;
  };
  Array y(Shape{x.dim(0), x.dim(1), size(x.dim(2), 0), size(x.dim(3), 1)});
  for_each_index(y.shape, [&](const Dims& i) {
    Numbers window;
    for (int64_t r = 0; r < p.kernel[0]; ++r) {
      for (int64_t s = 0; s < p.kernel[1]; ++s) {
        const int64_t h = i[2] * p.stride[0] - p.padding[0] + r;
        const int64_t w = i[3] * p.stride[1] - p.padding[1] + s;
        if (h < 0 || h >= x.dim(2) || w < 0 || w >= x.dim(3)) continue;
        window.push_back(x[Dims{i[0], i[1], h, w}]);
      }
    }
    y[i] = f(window, static_cast<double>(p.kernel[0] * p.kernel[1]));
  });
  return y;
}

const PoolParams kPools[] = {
    {},
    {.kernel = {3, 2}, .stride = {1, 2}},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {2, 3}, .stride = {3, 3}, .padding = {1, 0}},  // gaps between the windows
    {.kernel = {1, 1}, .stride = {1, 1}},
};

TEST_CASE("max_pool2d and avg_pool2d: values, gradients, layouts and dtypes") {
  for (const PoolParams& p : kPools) {
    const std::vector<std::vector<Input>> inputs{
        {values({2, 3, 4, 5})}, {values({1, 1, 3, 3})}, {values({0, 2, 4, 4})}};
    check_op({.name = str("max_pool2d ", p.kernel[0], "x", p.kernel[1]),
              .function = [&](const Tensors& in) { return max_pool2d(in[0], p); },
              .reference =
                  [&](const Arrays& in) {
                    return pool_reference(in[0], p, [](const Numbers& window, double) {
                      return *std::max_element(window.begin(), window.end());
                    });
                  },
              .inputs = inputs});
    check_op({.name = str("avg_pool2d ", p.kernel[0], "x", p.kernel[1]),
              .function = [&](const Tensors& in) { return avg_pool2d(in[0], p); },
              .reference =
                  [&](const Arrays& in) {
                    return pool_reference(in[0], p, [](const Numbers& window, double count) {
                      double total = 0;
                      for (const double v : window) total += v;
                      return total / count;
                    });
                  },
              .inputs = inputs});
  }
}

TEST_CASE("max_pool2d: the first of equal elements gets the gradient, padding never wins") {
  const Tensor x = set_requires_grad(full({1, 1, 2, 2}, -5, {.dtype = DType::f64}));
  const Tensor y = max_pool2d(x, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}});
  CHECK(y.to_vector() == Numbers{-5, -5, -5, -5});
  sum(max_pool2d(x, {})).backward();
  CHECK(x.grad().to_vector() == Numbers{1, 0, 0, 0});
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(max_pool2d(full({1, 1, 2, 2}, -infinity), {}).item() == -infinity);
}

TEST_CASE("max_pool2d: windows of more than 256 elements") {
  Numbers numbers(20 * 20, 0);
  numbers[333] = 5;
  const Tensor x = set_requires_grad(from_vector(numbers, {1, 1, 20, 20}));
  const Tensor y = max_pool2d(x, {.kernel = {20, 20}, .stride = {1, 1}});
  CHECK(y.item() == 5);
  y.backward();
  CHECK(x.grad().to_vector()[333] == 1);
}

TEST_CASE("pooling: the layout of images stays") {
  const Tensor last = ones({2, 3, 4, 4}).as_strided({2, 3, 4, 4}, {48, 1, 12, 3});
  CHECK(max_pool2d(last, {}).strides() == Strides{12, 1, 6, 3});
  CHECK(avg_pool2d(last, {}).strides() == Strides{12, 1, 6, 3});
  CHECK(max_pool2d(ones({2, 3, 4, 4}), {}).is_contiguous());
}

TEST_CASE("pooling: wrong arguments") {
  const Tensor x = ones({1, 2, 4, 4});
  CHECK_THROWS_WITH(max_pool2d(x, {.kernel = {5, 5}}),
                    Contains("[max_pool2d] window larger than the image"));
  CHECK_THROWS_WITH(avg_pool2d(x, {.padding = {2, 2}}), Contains("[avg_pool2d] wrong parameters"));
  CHECK_THROWS_WITH(avg_pool2d(ones({2, 2}), {}), Contains("[avg_pool2d] wrong shape"));
}

}  // namespace
}  // namespace tenon
