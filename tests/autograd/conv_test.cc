// 2-d convolution.
#include <catch2/catch.hpp>

#include "tenon/autograd/ops/conv.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

int64_t size_of_result(int64_t size, int64_t kernel, const ConvParams& p, size_t axis) {
  return (size + 2 * p.padding[axis] - p.dilation[axis] * (kernel - 1) - 1) / p.stride[axis] + 1;
}

Array conv_reference(const Arrays& in, const ConvParams& p, bool with_relu) {
  const Array &x = in[0], &w = in[1];
  Array y(Shape{x.dim(0), w.dim(0), size_of_result(x.dim(2), w.dim(2), p, 0),
                size_of_result(x.dim(3), w.dim(3), p, 1)});
  const int64_t outputs = w.dim(0) / p.groups;  // of one group
  for_each_index(y.shape, [&](const Dims& i) {
    double total = in.size() > 2 ? in[2][Dims{i[1]}] : 0;
    for (int64_t c = 0; c < w.dim(1); ++c) {
      for (int64_t r = 0; r < w.dim(2); ++r) {
        for (int64_t s = 0; s < w.dim(3); ++s) {
          const int64_t h = i[2] * p.stride[0] - p.padding[0] + r * p.dilation[0];
          const int64_t v = i[3] * p.stride[1] - p.padding[1] + s * p.dilation[1];
          if (h < 0 || h >= x.dim(2) || v < 0 || v >= x.dim(3)) continue;
          total += x[Dims{i[0], i[1] / outputs * w.dim(1) + c, h, v}] * w[Dims{i[1], c, r, s}];
        }
      }
    }
    y[i] = with_relu && total < 0 ? 0 : total;
  });
  return y;
}

struct ConvCase {
  const char* name;
  ConvParams params;
  Shape x, weight;
};

const ConvCase kConvolutions[] = {
    {"3x3", {}, {2, 2, 5, 4}, {3, 2, 3, 3}},
    {"1x1", {}, {2, 3, 3, 2}, {4, 3, 1, 1}},
    {"padding", {.padding = {1, 2}}, {1, 2, 3, 4}, {2, 2, 3, 3}},
    {"stride", {.stride = {2, 3}, .padding = {1, 1}}, {2, 1, 5, 7}, {3, 1, 3, 2}},
    {"stride that leaves a rest", {.stride = {2, 2}}, {1, 2, 6, 6}, {2, 2, 3, 3}},
    {"dilation", {.padding = {2, 0}, .dilation = {2, 3}}, {1, 2, 5, 7}, {2, 2, 3, 2}},
    {"groups", {.padding = {1, 1}, .groups = 2}, {2, 4, 4, 3}, {6, 2, 3, 3}},
    {"depthwise", {.groups = 3}, {1, 3, 4, 4}, {3, 1, 2, 2}},
    {"whole image", {}, {2, 3, 2, 3}, {2, 3, 2, 3}},
    {"one number", {}, {1, 1, 1, 1}, {1, 1, 1, 1}},
};

TEST_CASE("conv2d: values, gradients, layouts and dtypes") {
  for (const ConvCase& c : kConvolutions) {
    check_op({.name = str("conv2d ", c.name),
              .function = [&](const Tensors& in) { return conv2d(in[0], in[1], in[2], c.params); },
              .reference = [&](const Arrays& in) { return conv_reference(in, c.params, false); },
              .inputs = {{values(c.x), values(c.weight), values({c.weight[0]})}}});
  }
}

TEST_CASE("conv2d with relu or without bias: values, gradients, layouts and dtypes") {
  for (const ConvCase& c : {kConvolutions[0], kConvolutions[3], kConvolutions[6]}) {
    check_op({.name = str("conv2d relu ", c.name),
              .function =
                  [&](const Tensors& in) {
                    return conv2d(in[0], in[1], in[2], c.params, Activation::relu);
                  },
              .reference = [&](const Arrays& in) { return conv_reference(in, c.params, true); },
              .inputs = {{values(c.x), values(c.weight), values({c.weight[0]})}}});
    check_op({.name = str("conv2d without bias ", c.name),
              .function = [&](const Tensors& in) { return conv2d(in[0], in[1], {}, c.params); },
              .reference = [&](const Arrays& in) { return conv_reference(in, c.params, false); },
              .inputs = {{values(c.x), values(c.weight)}}});
  }
}

TEST_CASE("conv2d: a batch of nothing") {
  check_op({.name = "conv2d",
            .function = [](const Tensors& in) { return conv2d(in[0], in[1], in[2]); },
            .reference = [](const Arrays& in) { return conv_reference(in, {}, false); },
            .inputs = {{values({0, 2, 4, 4}), values({3, 2, 3, 3}), values({3})}}});
}

TEST_CASE("conv2d: results are channels-last in memory") {
  const Tensor y = conv2d(ones({2, 3, 5, 5}), ones({4, 3, 2, 2}));
  CHECK(y.shape() == Shape{2, 4, 4, 4});
  CHECK(y.strides() == Strides{64, 1, 16, 4});
}

TEST_CASE("conv2d: wrong arguments") {
  const Tensor x = ones({1, 2, 4, 4}), weight = ones({3, 2, 3, 3});
  CHECK_THROWS_WITH(conv2d(ones({2, 4, 4}), weight),
                    "[conv2d] wrong shape: given (2, 4, 4), wanted (N, C, H, W)");
  CHECK_THROWS_WITH(conv2d(x, ones({3, 1, 3, 3})), Contains("[conv2d] shapes do not fit"));
  CHECK_THROWS_WITH(conv2d(x, ones({3, 1, 3, 3}), {}, {.groups = 2}),
                    Contains("[conv2d] shapes do not fit"));
  CHECK_THROWS_WITH(conv2d(x, weight, ones({2})), "[conv2d] wrong bias: given (2), wanted (3)");
  CHECK_THROWS_WITH(conv2d(x, ones({3, 2, 5, 5})),
                    Contains("[conv2d] kernel larger than the image"));
  CHECK_THROWS_WITH(conv2d(x, weight, {}, {.stride = {0, 1}}),
                    Contains("[conv2d] wrong parameters"));
  CHECK_THROWS_WITH(conv2d(x, weight, {}, {}, Activation::gelu),
                    "[conv2d] wanted activation none or relu");
  CHECK_THROWS_WITH(conv2d(x, ones({3, 2, 3, 3}, {.dtype = DType::f64})),
                    Contains("[conv2d] dtypes differ"));
}

}  // namespace
}  // namespace tenon
