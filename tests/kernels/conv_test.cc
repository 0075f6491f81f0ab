#include "tenon/kernels/conv.h"
#include "tenon/tests/support/device.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::Activation;
using kernels::ConvParams;
using testing::channels_last;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

struct ConvCase {
  int64_t n, c, h, w, k, r, s;
  ConvParams params = {};

  Shape x() const { return {n, c, h, w}; }
  Shape weight() const { return {k, c / params.groups, r, s}; }
  Shape y() const { return {n, k, size(h, r, 0), size(w, s, 1)}; }
  int64_t size(int64_t image, int64_t kernel, size_t axis) const {
    const int64_t window = params.dilation[axis] * (kernel - 1) + 1;
    return (image + 2 * params.padding[axis] - window) / params.stride[axis] + 1;
  }
  // Calls body(index in x, index in weight, index in y) for every product of the convolution.
  template <class Body>
  void for_each_product(Body&& body) const {
    const int64_t group_c = c / params.groups, group_k = k / params.groups;
    const int64_t p_size = y()[2], q_size = y()[3];
    for (int64_t i = 0; i < y().numel(); ++i) {
      const int64_t q = i % q_size, p = i / q_size % p_size, out = i / (p_size * q_size) % k;
      for (int64_t j = 0; j < group_c * r * s; ++j) {
        const int64_t column = j % s, row = j / s % r, in = j / (r * s);
        const int64_t from_h = p * params.stride[0] + row * params.dilation[0] - params.padding[0];
        const int64_t from_w =
            q * params.stride[1] + column * params.dilation[1] - params.padding[1];
        if (from_h < 0 || from_h >= h || from_w < 0 || from_w >= w) continue;
        const int64_t channel = out / group_k * group_c + in;
        const int64_t image = i / (p_size * q_size * k);
        body(static_cast<size_t>(((image * c + channel) * h + from_h) * w + from_w),
             static_cast<size_t>(out * group_c * r * s + j), static_cast<size_t>(i));
      }
    }
  }
  int64_t channel_of(size_t y_index) const {
    return static_cast<int64_t>(y_index) / (y()[2] * y()[3]) % k;
  }
};

std::vector<ConvCase> cases() {
  return {
      {2, 3, 7, 9, 5, 3, 3},
      {1, 1, 8, 8, 16, 3, 3},
      {2, 32, 6, 6, 64, 3, 3},
      {3, 4, 5, 6, 7, 1, 1},
      {1, 2, 1, 1, 3, 1, 1},
      {2, 3, 10, 30, 33, 1, 1, {.stride = {2, 3}}},
      {2, 5, 4, 5, 3, 1, 1, {.padding = {1, 1}}},
      {2, 6, 4, 5, 9, 1, 1, {.groups = 3}},
      {2, 6, 6, 30, 32, 2, 1, {.dilation = {2, 2}, .groups = 2}},
      {2, 3, 9, 10, 4, 3, 2, {.stride = {2, 3}}},
      {2, 3, 5, 4, 4, 3, 3, {.padding = {1, 1}}},
      {1, 5, 9, 8, 3, 5, 3, {.stride = {2, 1}, .padding = {2, 1}}},
      {2, 3, 11, 10, 4, 3, 3, {.padding = {2, 0}, .dilation = {2, 3}}},
      {2, 6, 7, 7, 4, 3, 3, {.padding = {1, 1}, .groups = 2}},
      {2, 16, 7, 7, 16, 3, 3, {.stride = {2, 2}, .padding = {1, 1}, .groups = 16}},
      {1, 3, 6, 6, 6, 3, 3, {.groups = 3}},
      {1, 33, 6, 5, 17, 3, 3},
      {0, 3, 7, 7, 5, 3, 3},
      {2, 0, 5, 5, 3, 3, 3},
      {2, 3, 5, 5, 0, 3, 3},
  };
}

DType any_dtype() { return GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16); }

// Row-major, channels-last, or neither.
Tensor laid_out(const Tensor& tensor, int layout) {
  if (layout == 0) return tensor;
  return layout == 1 ? channels_last(tensor) : testing::with_layout(tensor, {1, 3, 0, 2});
}

std::string name_of(const ConvCase& c) {
  return str("x ", c.x(), " weight ", c.weight(), " y ", c.y(), " groups ", c.params.groups);
}

}  // namespace

TEST_CASE("conv2d agrees with the naive convolution") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const bool with_bias = GENERATE(false, true);
  const Activation activation = GENERATE(Activation::none, Activation::relu);
  for (const ConvCase& c : cases()) {
    const Tensor x = random_tensor(c.x(), dtype, 1);
    const Tensor weight = random_tensor(c.weight(), dtype, 2);
    const Tensor bias = random_tensor({c.k}, dtype, 3);
    Tensor y = laid_out(random_tensor(c.y(), dtype, 4), layout);
    kernels::conv2d(testing::device_type(), laid_out(x, layout), weight,
                    with_bias ? &bias : nullptr, y, c.params, activation);

    const auto from = x.to_vector(), kernel = weight.to_vector(), added = bias.to_vector();
    std::vector<double> wanted(static_cast<size_t>(c.y().numel()));
    c.for_each_product(
        [&](size_t xi, size_t wi, size_t yi) { wanted[yi] += from[xi] * kernel[wi]; });
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (with_bias) wanted[i] += added[static_cast<size_t>(c.channel_of(i))];
      if (activation == Activation::relu) wanted[i] = std::max(wanted[i], 0.0);
    }
    INFO(name_of(c) << ' ' << dtype << " layout " << layout);
    CHECK(max_error(y.to_vector(), wanted) < tolerance(dtype));
  }
}

TEST_CASE("conv2d_backward_input agrees with the naive gradient") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const bool accumulate = GENERATE(false, true);
  for (const ConvCase& c : cases()) {
    const Tensor dy = random_tensor(c.y(), dtype, 1);
    const Tensor weight = random_tensor(c.weight(), dtype, 2);
    Tensor dx = laid_out(random_tensor(c.x(), dtype, 3), layout);
    std::vector<double> wanted(static_cast<size_t>(c.x().numel()));
    if (accumulate) wanted = dx.to_vector();
    kernels::conv2d_backward_input(testing::device_type(), laid_out(dy, layout), weight, dx,
                                   c.params, accumulate);
    const auto from = dy.to_vector(), kernel = weight.to_vector();
    c.for_each_product(
        [&](size_t xi, size_t wi, size_t yi) { wanted[xi] += from[yi] * kernel[wi]; });
    INFO(name_of(c) << ' ' << dtype << " layout " << layout);
    CHECK(max_error(dx.to_vector(), wanted) < tolerance(dtype));
  }
}

TEST_CASE("conv2d_backward_weight agrees with the naive gradient") {
  const DType dtype = any_dtype();
  const int layout = GENERATE(0, 1, 2);
  const bool accumulate = GENERATE(false, true);
  const bool accumulate_bias = GENERATE(false, true);
  const bool wide = GENERATE(false, true);
  const DType result = wide ? compute_dtype(dtype) : dtype;
  for (const ConvCase& c : cases()) {
    const Tensor x = random_tensor(c.x(), dtype, 1);
    const Tensor dy = random_tensor(c.y(), dtype, 2);
    Tensor dweight = random_tensor(c.weight(), result, 3);
    Tensor dbias = random_tensor({c.k}, result, 4);
    std::vector<double> wanted(static_cast<size_t>(dweight.numel()));
    std::vector<double> wanted_bias(static_cast<size_t>(c.k));
    if (accumulate) wanted = dweight.to_vector();
    if (accumulate_bias) wanted_bias = dbias.to_vector();
    kernels::conv2d_backward_weight(testing::device_type(), laid_out(x, layout),
                                    laid_out(dy, layout), dweight, &dbias, c.params, accumulate,
                                    accumulate_bias);
    const auto from = x.to_vector(), gradient = dy.to_vector();
    c.for_each_product(
        [&](size_t xi, size_t wi, size_t yi) { wanted[wi] += from[xi] * gradient[yi]; });
    for (size_t i = 0; i < gradient.size(); ++i) {
      wanted_bias[static_cast<size_t>(c.channel_of(i))] += gradient[i];
    }
    INFO(name_of(c) << ' ' << dtype << " layout " << layout << " wide " << wide);
    CHECK(max_error(dweight.to_vector(), wanted) < tolerance(result));
    CHECK(max_error(dbias.to_vector(), wanted_bias) < tolerance(result));
  }
}

TEST_CASE("conv2d_backward_weight works without a bias and into a strided gradient") {
  const DType dtype = any_dtype();
  const bool accumulate = GENERATE(false, true);
  const ConvCase c{2, 3, 6, 5, 4, 3, 2};
  const Tensor x = random_tensor(c.x(), dtype, 1);
  const Tensor dy = random_tensor(c.y(), dtype, 2);
  Tensor dweight = channels_last(random_tensor(c.weight(), dtype, 3));
  std::vector<double> wanted(static_cast<size_t>(dweight.numel()));
  if (accumulate) wanted = dweight.to_vector();
  kernels::conv2d_backward_weight(testing::device_type(), x, dy, dweight, nullptr, c.params,
                                  accumulate, false);
  const auto from = x.to_vector(), gradient = dy.to_vector();
  c.for_each_product(
      [&](size_t xi, size_t wi, size_t yi) { wanted[wi] += from[xi] * gradient[yi]; });
  CHECK(max_error(dweight.to_vector(), wanted) < tolerance(dtype));
}

TEST_CASE("conv2d with relu keeps NaN visible") {
  std::vector<double> values(32);
  values[0] = NAN;
  const Tensor x = from_vector(values, {1, 2, 4, 4});
  const Tensor weight = ones({3, 2, 2, 2});
  Tensor y = empty({1, 3, 3, 3});
  kernels::conv2d(testing::device_type(), x, weight, nullptr, y, {}, Activation::relu);
  CHECK(std::isnan(y.to_vector()[0]));
  CHECK(y.to_vector()[1] == 0);
}

TEST_CASE("convolution refuses dtypes it cannot compute in") {
  const Tensor x = zeros({1, 1, 3, 3}, {.dtype = DType::i32});
  Tensor y = zeros({1, 1, 3, 3}, {.dtype = DType::i32});
  Tensor weight = zeros({1, 1, 1, 1}, {.dtype = DType::i32});
  CHECK_THROWS_WITH(
      kernels::conv2d(testing::device_type(), x, weight, nullptr, y, {}, Activation::none),
      Catch::Contains("[conv2d] unsupported dtype: given i32"));
  CHECK_THROWS_WITH(kernels::conv2d_backward_input(testing::device_type(), x, weight, y, {}, false),
                    Catch::Contains("[conv2d_backward_input] unsupported dtype"));
  CHECK_THROWS_WITH(kernels::conv2d_backward_weight(testing::device_type(), x, y, weight, nullptr,
                                                    {}, false, false),
                    Catch::Contains("[conv2d_backward_weight] unsupported dtype"));
}

}  // namespace tenon
