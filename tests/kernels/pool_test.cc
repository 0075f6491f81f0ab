#include "tenon/kernels/pool.h"
#include "tenon/tests/support/device.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::PoolParams;
using testing::channels_last;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

struct PoolCase {
  int64_t n, c, h, w;
  PoolParams params = {};

  Shape x() const { return {n, c, h, w}; }
  Shape y() const { return {n, c, size(h, 0), size(w, 1)}; }
  int64_t size(int64_t image, size_t axis) const {
    return (image + 2 * params.padding[axis] - params.kernel[axis]) / params.stride[axis] + 1;
  }
  int64_t area() const { return params.kernel[0] * params.kernel[1]; }
  // Calls body(index in y, index in x, place in the window) for the cells inside the image.
  template <class Body>
  void for_each_cell(Body&& body) const {
    const int64_t p_size = y()[2], q_size = y()[3];
    for (int64_t i = 0; i < y().numel(); ++i) {
      const int64_t q = i % q_size, p = i / q_size % p_size, plane = i / (p_size * q_size);
      for (int64_t place = 0; place < area(); ++place) {
        const int64_t row = p * params.stride[0] - params.padding[0] + place / params.kernel[1];
        const int64_t column = q * params.stride[1] - params.padding[1] + place % params.kernel[1];
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        body(static_cast<size_t>(i), static_cast<size_t>((plane * h + row) * w + column),
             static_cast<double>(place));
      }
    }
  }
};

std::vector<PoolCase> cases() {
  return {
      {2, 3, 8, 6},
      {1, 70, 4, 4},
      {2, 5, 7, 9},
      {1, 1, 2, 2},
      {2, 3, 3, 70},
      {0, 3, 4, 4},
      {2, 0, 4, 4},
      {2, 3, 7, 8, {.kernel = {3, 3}}},
      {2, 3, 9, 8, {.kernel = {3, 2}, .stride = {1, 1}}},
      {2, 3, 9, 8, {.kernel = {3, 3}, .padding = {1, 1}}},
      {2, 3, 9, 8, {.kernel = {2, 2}, .padding = {1, 1}}},
      {2, 3, 9, 11, {.kernel = {2, 1}, .stride = {3, 4}}},
      {2, 3, 10, 11, {.kernel = {3, 2}, .stride = {4, 3}, .padding = {1, 1}}},
      {2, 3, 5, 6, {.kernel = {1, 1}, .stride = {1, 1}}},
      {1, 2, 20, 21, {.kernel = {17, 18}, .stride = {1, 2}, .padding = {8, 9}}},
  };
}

DType any_dtype() { return GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16); }

// Row-major, channels-last, or neither.
Tensor laid_out(const Tensor& tensor, int layout) {
  if (layout == 0) return tensor;
  return layout == 1 ? channels_last(tensor) : testing::with_layout(tensor, {1, 3, 0, 2});
}

// Values with many ties, also next to each other.
Tensor coarse_tensor(const Shape& shape, DType dtype) {
  std::vector<double> values = random_tensor(shape, DType::f64).to_vector();
  for (double& value : values) value = std::round(value * 3);
  return from_vector(values, shape, {.dtype = dtype});
}

struct Maxima {
  std::vector<double> values, places;
};
Maxima naive_max(const PoolCase& c, const std::vector<double>& x) {
  const auto count = static_cast<size_t>(c.y().numel());
  Maxima result{std::vector<double>(count, -INFINITY), std::vector<double>(count, -1)};
  c.for_each_cell([&](size_t yi, size_t xi, double place) {
    if (result.places[yi] >= 0 && x[xi] <= result.values[yi]) return;
    result.values[yi] = x[xi];
    result.places[yi] = place;
  });
  return result;
}

Tensor window_tensor(const PoolCase& c, int layout, const std::vector<double>* places = nullptr) {
  const DType dtype = c.area() <= 256 ? DType::u8 : DType::i32;
  const Tensor window = places != nullptr ? from_vector(*places, c.y(), {.dtype = dtype})
                                          : zeros(c.y(), {.dtype = dtype});
  return laid_out(window, layout);
}

std::string name_of(const PoolCase& c) { return str("x ", c.x(), " y ", c.y()); }

}  // namespace

TEST_CASE("max_pool2d finds the first largest element of every window") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const int out_layout = GENERATE(0, 1);
  for (const PoolCase& c : cases()) {
    const Tensor x = coarse_tensor(c.x(), dtype);
    Tensor y = laid_out(random_tensor(c.y(), dtype, 2), out_layout);
    Tensor window = window_tensor(c, out_layout);
    kernels::max_pool2d(testing::device_type(), laid_out(x, layout), y, window, c.params);
    const Maxima wanted = naive_max(c, x.to_vector());
    INFO(name_of(c) << ' ' << dtype << " layouts " << layout << ' ' << out_layout);
    CHECK(y.to_vector() == wanted.values);
    CHECK(window.to_vector() == wanted.places);
  }
}

TEST_CASE("max_pool2d_backward brings gradients to the places of the largest elements") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const int x_layout = GENERATE(0, 1);
  for (const PoolCase& c : cases()) {
    const Maxima maxima = naive_max(c, coarse_tensor(c.x(), dtype).to_vector());
    const Tensor dy = random_tensor(c.y(), dtype, 3);
    const Tensor window = window_tensor(c, layout, &maxima.places);
    Tensor dx = laid_out(random_tensor(c.x(), dtype, 4), x_layout);
    kernels::max_pool2d_backward(testing::device_type(), laid_out(dy, layout), window, dx,
                                 c.params);
    const auto gradient = dy.to_vector();
    std::vector<double> wanted(static_cast<size_t>(c.x().numel()));
    c.for_each_cell([&](size_t yi, size_t xi, double place) {
      if (maxima.places[yi] == place) wanted[xi] += gradient[yi];
    });
    INFO(name_of(c) << ' ' << dtype << " layouts " << layout << ' ' << x_layout);
    CHECK(max_error(dx.to_vector(), wanted) < tolerance(dtype));
  }
}

TEST_CASE("avg_pool2d averages over whole windows, padding included") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const int out_layout = GENERATE(0, 1);
  for (const PoolCase& c : cases()) {
    const Tensor x = random_tensor(c.x(), dtype, 1);
    const Tensor dy = random_tensor(c.y(), dtype, 2);
    Tensor y = laid_out(random_tensor(c.y(), dtype, 3), out_layout);
    Tensor dx = laid_out(random_tensor(c.x(), dtype, 4), out_layout);
    kernels::avg_pool2d(testing::device_type(), laid_out(x, layout), y, c.params);
    kernels::avg_pool2d_backward(testing::device_type(), laid_out(dy, layout), dx, c.params);
    const auto from = x.to_vector(), gradient = dy.to_vector();
    std::vector<double> wanted_y(static_cast<size_t>(c.y().numel()));
    std::vector<double> wanted_dx(static_cast<size_t>(c.x().numel()));
    const auto area = static_cast<double>(c.area());
    c.for_each_cell([&](size_t yi, size_t xi, double) {
      wanted_y[yi] += from[xi] / area;
      wanted_dx[xi] += gradient[yi] / area;
    });
    INFO(name_of(c) << ' ' << dtype << " layouts " << layout << ' ' << out_layout);
    CHECK(max_error(y.to_vector(), wanted_y) < tolerance(dtype));
    CHECK(max_error(dx.to_vector(), wanted_dx) < tolerance(dtype));
  }
}

TEST_CASE("max_pool2d keeps NaN visible") {
  const int layout = GENERATE(0, 1);
  Tensor x = from_data<float>({1, NAN, 3, 4, 5, 6, 7, NAN}, {1, 2, 2, 2});
  Tensor y = laid_out(empty({1, 2, 1, 1}), layout);
  Tensor window = zeros({1, 2, 1, 1}, {.dtype = DType::u8});
  kernels::max_pool2d(testing::device_type(), laid_out(x, layout), y, window, {});
  CHECK(std::isnan(y.to_vector()[0]));
  CHECK(std::isnan(y.to_vector()[1]));
  CHECK(window.to_vector() == std::vector<double>{1, 3});
}

TEST_CASE("max_pool2d of minus infinity stays inside the image") {
  const Tensor x = full({1, 1, 2, 2}, -INFINITY);
  const PoolParams params{.kernel = {2, 2}, .padding = {1, 1}};
  Tensor y = empty({1, 1, 2, 2});
  Tensor window = empty({1, 1, 2, 2}, {.dtype = DType::u8});
  kernels::max_pool2d(testing::device_type(), x, y, window, params);
  CHECK(y.to_vector() == std::vector<double>(4, -INFINITY));
  CHECK(window.to_vector() == std::vector<double>{3, 2, 1, 0});
}

TEST_CASE("pooling refuses dtypes it cannot compute in") {
  Tensor x = zeros({1, 1, 2, 2}, {.dtype = DType::i64});
  Tensor y = zeros({1, 1, 1, 1}, {.dtype = DType::i64});
  Tensor window = zeros({1, 1, 1, 1}, {.dtype = DType::u8});
  CHECK_THROWS_WITH(kernels::max_pool2d(testing::device_type(), x, y, window, {}),
                    Catch::Contains("[max_pool2d] unsupported dtype: given i64"));
  CHECK_THROWS_WITH(kernels::max_pool2d_backward(testing::device_type(), y, window, x, {}),
                    Catch::Contains("[max_pool2d_backward] unsupported dtype"));
  CHECK_THROWS_WITH(kernels::avg_pool2d(testing::device_type(), x, y, {}),
                    Catch::Contains("[avg_pool2d] unsupported dtype"));
  CHECK_THROWS_WITH(kernels::avg_pool2d_backward(testing::device_type(), y, x, {}),
                    Catch::Contains("[avg_pool2d_backward] unsupported dtype"));
}

}  // namespace tenon
