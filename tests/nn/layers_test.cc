// Layers against plain loops in f64, and what they refuse.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/activation.h"
#include "tenon/nn/conv.h"
#include "tenon/nn/dropout.h"
#include "tenon/nn/embedding.h"
#include "tenon/nn/init.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/norm.h"
#include "tenon/nn/pooling.h"
#include "tenon/nn/sequential.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

namespace {

using Values = std::vector<double>;

Tensor numbers(const Shape& shape, DType dtype = DType::f64) {
  Values values;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(std::sin(1.3 * static_cast<double>(i) + 0.2));
  }
  return from_vector(values, shape, {dtype});
}

void check_close(const Tensor& x, const Values& expected, double tolerance = 1e-12) {
  const Values values = x.to_vector();
  REQUIRE(values.size() == expected.size());
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i] - expected[i]));
  }
  CHECK(largest < tolerance);
}

Values naive_linear(const Values& x, const Values& w, const Values& b, size_t rows, size_t in,
                    size_t out, bool relu) {
  Values y;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t o = 0; o < out; ++o) {
      double sum = b.empty() ? 0 : b[o];
      for (size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y.push_back(relu ? std::max(sum, 0.0) : sum);
    }
  }
  return y;
}

// Stride, padding and dilation are the same in both dimensions.
struct Conv {
  int n, c, h, w, k, r, s, stride, padding, dilation, groups;
};

double naive_conv_at(const Conv& p, const Values& x, const Values& weight, int n, int k, int i,
                     int j) {
  const int channels = p.c / p.groups, first = k / (p.k / p.groups) * channels;
  double sum = 0;
  for (int c = 0; c < channels; ++c) {
    for (int r = 0; r < p.r; ++r) {
      for (int s = 0; s < p.s; ++s) {
        const int y = i * p.stride - p.padding + r * p.dilation;
        const int z = j * p.stride - p.padding + s * p.dilation;
        if (y < 0 || y >= p.h || z < 0 || z >= p.w) continue;
        sum += x[static_cast<size_t>(((n * p.c + first + c) * p.h + y) * p.w + z)] *
               weight[static_cast<size_t>(((k * channels + c) * p.r + r) * p.s + s)];
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("linear computes x W^T + b with and without bias and relu") {
  const DefaultDType scope(DType::f64);
  for (const bool bias : {true, false}) {
    for (const Activation activation : {Activation::none, Activation::relu}) {
      nn::Linear linear(5, 3, {.bias = bias, .activation = activation});
      CHECK(linear.weight.shape() == Shape{3, 5});
      CHECK(linear.parameters().size() == (bias ? 2 : 1));
      const Tensor x = numbers({2, 3, 5});
      const Tensor y = linear.forward(x);
      CHECK(y.shape() == Shape{2, 3, 3});
      check_close(y, naive_linear(x.to_vector(), linear.weight.to_vector(),
                                  bias ? linear.bias.to_vector() : Values{}, 6, 5, 3,
                                  activation == Activation::relu));
    }
  }
}

TEST_CASE("conv2d computes a cross-correlation with every option") {
  const DefaultDType scope(DType::f64);
  for (const Conv& p :
       {Conv{2, 3, 7, 6, 4, 3, 3, 1, 0, 1, 1}, Conv{1, 4, 8, 9, 6, 3, 2, 2, 1, 1, 2},
        Conv{2, 2, 9, 9, 2, 2, 3, 1, 2, 2, 2}}) {
    nn::Conv2d conv(p.c, p.k, nn::Size2{p.r, p.s},
                    {.stride = p.stride,
                     .padding = p.padding,
                     .dilation = p.dilation,
                     .groups = p.groups,
                     .activation = Activation::relu});
    const Tensor x = numbers({p.n, p.c, p.h, p.w});
    const Tensor y = conv.forward(x);
    const Values weight = conv.weight.to_vector(), bias = conv.bias.to_vector();
    Values expected;
    const Values values = x.to_vector();
    for (int n = 0; n < p.n; ++n) {
      for (int k = 0; k < p.k; ++k) {
        for (int i = 0; i < y.dim(2); ++i) {
          for (int j = 0; j < y.dim(3); ++j) {
            const double sum = naive_conv_at(p, values, weight, n, k, i, j);
            expected.push_back(std::max(0.0, sum + bias[static_cast<size_t>(k)]));
          }
        }
      }
    }
    CHECK(y.dim(2) == (p.h + 2 * p.padding - p.dilation * (p.r - 1) - 1) / p.stride + 1);
    CHECK(y.dim(3) == (p.w + 2 * p.padding - p.dilation * (p.s - 1) - 1) / p.stride + 1);
    check_close(y, expected);
  }
}

TEST_CASE("layer_norm makes rows of mean 0 and variance 1") {
  const DefaultDType scope(DType::f64);
  nn::LayerNorm norm(6, {.eps = 1e-3});
  nn::init::constant_(norm.weight, 2);
  nn::init::constant_(norm.bias, 0.5);
  const Tensor x = numbers({3, 6});
  const Values values = x.to_vector();
  Values expected;
  for (size_t r = 0; r < 3; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 6; ++i) mean += values[r * 6 + i] / 6;
    for (size_t i = 0; i < 6; ++i) variance += std::pow(values[r * 6 + i] - mean, 2) / 6;
    for (size_t i = 0; i < 6; ++i) {
      expected.push_back(2 * (values[r * 6 + i] - mean) / std::sqrt(variance + 1e-3) + 0.5);
    }
  }
  check_close(norm.forward(x), expected);
  CHECK(nn::LayerNorm(6, {.bias = false}).parameters().size() == 1);
  CHECK(nn::LayerNorm(6, {.affine = false}).parameters().empty());
  CHECK_THAT(error_of([&] { norm.forward(numbers({6, 5})); }), Contains("wanted (…, 6)"));
}

TEST_CASE("batch_norm normalises with the batch, then with what it has seen") {
  const DefaultDType scope(DType::f64);
  nn::BatchNorm2d norm(2, {.momentum = 0.25});
  const Tensor x = numbers({3, 2, 2, 2});
  const Values values = x.to_vector();
  const auto at = [&](size_t n, size_t c, size_t i) { return values[(n * 2 + c) * 4 + i]; };
  Values mean(2), variance(2);
  for (size_t c = 0; c < 2; ++c) {
    for (size_t k = 0; k < 12; ++k) mean[c] += at(k / 4, c, k % 4) / 12;
    for (size_t k = 0; k < 12; ++k) variance[c] += std::pow(at(k / 4, c, k % 4) - mean[c], 2) / 12;
  }
  const auto normalised = [&](const Values& m, const Values& v) {
    Values result;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = i / 4 % 2;
      result.push_back((values[i] - m[c]) / std::sqrt(v[c] + 1e-5));
    }
    return result;
  };
  check_close(norm.forward(x), normalised(mean, variance));
  const Values running{0.25 * mean[0], 0.25 * mean[1]};
  const Values running_var{0.75 + 0.25 * variance[0] * 12 / 11,
                           0.75 + 0.25 * variance[1] * 12 / 11};
  check_close(norm.running_mean, running);
  check_close(norm.running_var, running_var);
  norm.eval();
  check_close(norm.forward(x), normalised(running, running_var));
  check_close(norm.running_mean, running);
  CHECK(nn::BatchNorm1d(2, {.affine = false}).parameters().empty());
  CHECK(nn::BatchNorm1d(2).forward(numbers({4, 2}, DType::f64)).shape() == Shape{4, 2});
  CHECK_THAT(error_of([&] { norm.forward(numbers({4, 2})); }), Contains("wanted 4 dimensions"));
  CHECK_THAT(error_of([&] { norm.forward(numbers({4, 3, 1, 1})); }), Contains("2 channels"));
}

TEST_CASE("embedding looks rows up") {
  nn::Embedding table(5, 3);
  const Tensor y = table.forward(from_vector({4, 0, 4, 2}, {2, 2}, {.dtype = DType::i64}));
  CHECK(y.shape() == Shape{2, 2, 3});
  const Values rows = table.weight.to_vector(), found = y.to_vector();
  CHECK(found[0] == rows[12]);
  CHECK(found[11] == rows[8]);
  table.set_compute_dtype(DType::bf16);
  CHECK(table.forward(arange(5)).dtype() == DType::bf16);
}

TEST_CASE("pooling takes the kernel's size as stride unless told") {
  const Tensor x =
      from_vector({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 1, 4, 4});
  CHECK(nn::MaxPool2d(2).forward(x).to_vector() == Values{6, 8, 14, 16});
  CHECK(nn::AvgPool2d(2).forward(x).to_vector() == Values{3.5, 5.5, 11.5, 13.5});
  CHECK(nn::MaxPool2d(2, {.stride = 1}).forward(x).shape() == Shape{1, 1, 3, 3});
  CHECK(nn::MaxPool2d({2, 4}, {.stride = {1, 4}}).forward(x).to_vector() == Values{8, 12, 16});
  CHECK(nn::MaxPool2d(3, {.stride = 2, .padding = 1}).forward(x).to_vector() ==
        Values{6, 8, 14, 16});
}

TEST_CASE("dropout works while training only") {
  nn::Dropout dropout(0.25);
  const Tensor x = ones({4000});
  const Values y = dropout.forward(x).to_vector();
  int kept = 0;
  for (const double value : y) {
    CHECK((value == 0 || value == Approx(1 / 0.75)));
    kept += value != 0;
  }
  CHECK(std::abs(kept - 3000) < 200);
  dropout.eval();
  CHECK(dropout.forward(x).is_same(x));
}

TEST_CASE("sequential runs its modules in turn under their numbers") {
  const DefaultDType scope(DType::f64);
  struct Net : Module {
    Child<nn::Sequential> layers{this, "layers"};
    Net() {
      layers->add<nn::Flatten>().add<nn::Linear>(6, 4).add<nn::ReLU>().add<nn::Linear>(4, 2);
    }
  } net;
  CHECK(net.layers->size() == 4);
  CHECK(net.parameters()[0].name == "layers.1.weight");
  CHECK(net.parameters()[3].name == "layers.3.bias");
  CHECK(net.layers(numbers({3, 2, 3})).shape() == Shape{3, 2});
}

TEST_CASE("activation modules are their functions") {
  const Tensor x = numbers({7});
  CHECK(nn::ReLU().forward(x).to_vector() == relu(x).to_vector());
  CHECK(nn::GELU().forward(x).to_vector() == gelu(x).to_vector());
  CHECK(nn::Tanh().forward(x).to_vector() == tanh(x).to_vector());
  CHECK(nn::Sigmoid().forward(x).to_vector() == sigmoid(x).to_vector());
  CHECK(nn::SiLU().forward(x).to_vector() == silu(x).to_vector());
}

TEST_CASE("layers compute in the compute dtype and keep f32 gradients") {
  struct Net : Module {
    Child<nn::Conv2d> conv{this, "conv", 1, 4, 3, {.padding = 1, .activation = Activation::relu}};
    Child<nn::BatchNorm2d> batch{this, "batch", 4};
    Child<nn::Linear> fc{this, "fc", 64, 8};
    Child<nn::LayerNorm> norm{this, "norm", 8};
    Tensor forward(const Tensor& x) { return norm(fc(flatten(batch(conv(x)), 1))); }
  } net;
  const Tensor x = numbers({2, 1, 4, 4}, DType::f32);
  const Tensor exact = net.forward(x);
  net.set_compute_dtype(DType::bf16);
  const Tensor y = net.forward(x);
  CHECK(y.dtype() == DType::bf16);
  check_close(y, exact.to_vector(), 0.15);
  sum(square(to(y, DType::f32))).backward();
  for (const auto& [name, parameter] : net.parameters()) {
    CAPTURE(name);
    CHECK(parameter.dtype() == DType::f32);
    REQUIRE(parameter.grad().defined());
    CHECK(parameter.grad().dtype() == DType::f32);
  }
}

TEST_CASE("bad sizes of layers are named") {
  CHECK_THAT(error_of([] { nn::Linear(0, 3); }),
             Contains("[linear] bad number of inputs: given 0"));
  CHECK_THAT(error_of([] { nn::Conv2d(3, 4, 0); }), Contains("[conv2d] bad kernel size"));
  CHECK_THAT(error_of([] { nn::Conv2d(3, 4, 1, {.stride = 0}); }), Contains("bad stride"));
  CHECK_THAT(error_of([] { nn::Conv2d(3, 4, 1, {.padding = -1}); }), Contains("negative padding"));
  CHECK_THAT(error_of([] { nn::Conv2d(3, 4, 1, {.groups = 2}); }), Contains("2 groups"));
  CHECK_THAT(error_of([] { nn::Embedding(5, 0); }), Contains("number of features: given 0"));
  CHECK_THAT(error_of([] { nn::LayerNorm(-1); }), Contains("number of features: given -1"));
  CHECK_THAT(error_of([] { nn::BatchNorm2d(0); }), Contains("number of channels: given 0"));
  CHECK_THAT(error_of([] { nn::Dropout(1); }), Contains("bad probability: given 1"));
  CHECK_THAT(error_of([] { nn::MaxPool2d(0); }), Contains("bad kernel size"));
}
