// What the tests of kernels/ do not reach: images of different layouts in one call, gradients of
// 16-bit images in f32, ways around what cuDNN refuses, against the CPU's results.
#include "tenon/kernels/conv.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::Activation;
using kernels::ConvParams;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

enum class Layout { row_major, channels_last, narrowed };

Pair image(const Shape& shape, DType dtype, unsigned seed, Layout layout) {
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  switch (layout) {
    case Layout::row_major:
      return Pair(shape, dtype, seed);
    case Layout::channels_last:
      return Pair(shape, dtype, seed).view(shape, channels_last_strides(shape));
    default: {
      const Shape larger{shape[0], c, h + 1, w + 2};
      return Pair(larger, dtype, seed).view(shape, contiguous_strides(larger), 1);
    }
  }
}

struct Case {
  Shape x, weight, y;
  ConvParams params = {};
};

std::vector<Case> cases() {
  return {
      {{2, 3, 7, 9}, {5, 3, 3, 3}, {2, 5, 5, 7}},
      {{2, 8, 6, 6}, {16, 8, 3, 3}, {2, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {{2, 6, 9, 9}, {4, 3, 3, 3}, {2, 4, 5, 5}, {.dilation = {2, 2}, .groups = 2}},
      {{1, 4, 4, 5}, {3, 4, 1, 1}, {1, 3, 6, 7}, {.padding = {1, 1}}},
      {{3, 4, 8, 8}, {4, 1, 3, 3}, {3, 4, 8, 8}, {.padding = {1, 1}, .groups = 4}},
      {{0, 3, 7, 7}, {5, 3, 3, 3}, {0, 5, 5, 5}},
      {{2, 0, 5, 5}, {3, 0, 3, 3}, {2, 3, 3, 3}},
      {{2, 3, 5, 5}, {0, 3, 3, 3}, {2, 0, 3, 3}},
  };
}

// Layouts of x and y.
std::pair<Layout, Layout> any_layouts() {
  return GENERATE(std::pair{Layout::row_major, Layout::row_major},
                  std::pair{Layout::channels_last, Layout::channels_last},
                  std::pair{Layout::row_major, Layout::channels_last},
                  std::pair{Layout::channels_last, Layout::narrowed},
                  std::pair{Layout::narrowed, Layout::row_major});
}

DType any_dtype() { return GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16); }

void compare(const Pair& result, const Case& c) {
  INFO("x " << c.x << ", weight " << c.weight << ", " << describe(result.cuda));
  CHECK(max_error(result.cuda.to_vector(), result.cpu.to_vector()) <
        2 * tolerance(result.cpu.dtype()));
}

}  // namespace

TEST_CASE("cuda conv2d: layouts of images and weights") {
  const DType dtype = any_dtype();
  const auto [from, to] = any_layouts();
  const Activation activation = GENERATE(Activation::none, Activation::relu);
  for (const Case& c : cases()) {
    const Pair x = image(c.x, dtype, 1, from);
    const Pair weight = image(c.weight, dtype, 2, to);
    const Pair bias(Shape{2 * c.weight[0]}, dtype, 3);
    const Pair added = bias.view({c.weight[0]}, {2});
    Pair y = image(c.y, dtype, 4, to);
    kernels::conv2d(DeviceType::cpu, x.cpu, weight.cpu, &added.cpu, y.cpu, c.params, activation);
    kernels::conv2d(DeviceType::cuda, x.cuda, weight.cuda, &added.cuda, y.cuda, c.params,
                    activation);
    compare(y, c);
  }
}

TEST_CASE("cuda conv2d_backward_input: layouts, accumulation") {
  const DType dtype = any_dtype();
  const auto [to, from] = any_layouts();
  const bool accumulate = GENERATE(false, true);
  for (const Case& c : cases()) {
    const Pair dy = image(c.y, dtype, 1, from);
    const Pair weight = image(c.weight, dtype, 2, to);
    Pair dx = image(c.x, dtype, 3, to);
    kernels::conv2d_backward_input(DeviceType::cpu, dy.cpu, weight.cpu, dx.cpu, c.params,
                                   accumulate);
    kernels::conv2d_backward_input(DeviceType::cuda, dy.cuda, weight.cuda, dx.cuda, c.params,
                                   accumulate);
    compare(dx, c);
  }
}

TEST_CASE("cuda conv2d_backward_weight: layouts, accumulation, wider results") {
  const DType dtype = any_dtype();
  const auto [from, to] = any_layouts();
  const bool accumulate = GENERATE(false, true);
  const bool wide = GENERATE(false, true);
  const DType result = wide ? compute_dtype(dtype) : dtype;
  for (const Case& c : cases()) {
    const Pair x = image(c.x, dtype, 1, from);
    const Pair dy = image(c.y, dtype, 2, to);
    Pair dweight = image(c.weight, result, 3, from);
    Pair dbias(Shape{c.weight[0]}, result, 4);
    kernels::conv2d_backward_weight(DeviceType::cpu, x.cpu, dy.cpu, dweight.cpu, &dbias.cpu,
                                    c.params, accumulate, !accumulate);
    kernels::conv2d_backward_weight(DeviceType::cuda, x.cuda, dy.cuda, dweight.cuda, &dbias.cuda,
                                    c.params, accumulate, !accumulate);
    compare(dweight, c);
    compare(dbias, c);
  }
}

TEST_CASE("cuda conv2d keeps NaN visible and f32 exact") {
  const TensorOptions there{.device = testing::kCuda};
  const Tensor x = from_vector({1 + 0x1p-20, NAN, 1, 2}, {1, 1, 2, 2}, there);
  const Tensor weight = from_vector({1 + 0x1p-20}, {1, 1, 1, 1}, there);
  Tensor y = empty({1, 1, 2, 2}, there);
  kernels::conv2d(DeviceType::cuda, x, weight, nullptr, y, {}, Activation::relu);
  const std::vector<double> values = y.to_vector();
  if (std::getenv("TENON_TF32") == nullptr) CHECK(values[0] == 1 + 0x1p-19);
  CHECK(std::isnan(values[1]));
}

TEST_CASE("cuda conv2d names what no library computes") {
  const TensorOptions integers{.dtype = DType::i64, .device = testing::kCuda};
  const Tensor x = zeros({1, 1, 2, 2}, integers);
  Tensor y = empty({1, 1, 2, 2}, integers);
  CHECK_THROWS_WITH(kernels::conv2d(DeviceType::cuda, x, x, nullptr, y, {}, Activation::none),
                    Catch::Contains("[conv2d] unsupported dtype: given i64"));
}

}  // namespace tenon
