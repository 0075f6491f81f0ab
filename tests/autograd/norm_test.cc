// Layer and batch normalisation.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/norm.h"
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

struct Moments {
  Array mean, variance;  // biased
};

// Over all elements with the same index along `axis`.
Moments moments_along(const Array& x, int axis) {
  const int64_t groups = x.shape[axis];
  Moments moments{Array(Shape{groups}), Array(Shape{groups})};
  const double count = static_cast<double>(x.shape.numel()) / static_cast<double>(groups);
  for_each_index(x.shape, [&](const Dims& i) { moments.mean[Dims{i[axis]}] += x[i] / count; });
  for_each_index(x.shape, [&](const Dims& i) {
    moments.variance[Dims{i[axis]}] += std::pow(x[i] - moments.mean[Dims{i[axis]}], 2) / count;
  });
  return moments;
}

Array layer_norm_reference(const Arrays& in, double eps, int64_t width) {
  Array rows = in[0];
  rows.shape = Shape{in[0].shape.numel() / width, width};
  const Moments moments = moments_along(rows, 0);
  Array y = rows;
  for_each_index(rows.shape, [&](const Dims& i) {
    const Dims row{i[0]}, column{i[1]};
    const double normal = (rows[i] - moments.mean[row]) / std::sqrt(moments.variance[row] + eps);
    y[i] = normal * (in.size() > 1 ? in[1][column] : 1) + (in.size() > 2 ? in[2][column] : 0);
  });
  y.shape = in[0].shape;
  return y;
}

TEST_CASE("layer_norm: values, gradients, layouts and dtypes") {
  check_op(
      {.name = "layer_norm",
       .function = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
       .reference = [](const Arrays& in) { return layer_norm_reference(in, 1e-5, in[0].dim(-1)); },
       .inputs = {{values({3, 6}), values({6}), values({6})},
                  {values({2, 2, 5}), values({5}), values({5})},
                  {values({7}), values({7}), values({7})}}});
  check_op(
      {.name = "layer_norm without gamma and beta",
       .function = [](const Tensors& in) { return layer_norm(in[0], {}, {}, 0.1); },
       .reference = [](const Arrays& in) { return layer_norm_reference(in, 0.1, in[0].dim(-1)); },
       .inputs = {{values({3, 6})}, {values({2, 1})}}});
  check_op(
      {.name = "layer_norm without beta",
       .function = [](const Tensors& in) { return layer_norm(in[0], in[1]); },
       .reference = [](const Arrays& in) { return layer_norm_reference(in, 1e-5, in[0].dim(-1)); },
       .inputs = {{values({3, 6}), values({6})}}});
  check_op({.name = "layer_norm of nothing",
            .function = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
            .reference = [](const Arrays& in) { return in[0]; },
            .inputs = {{values({0, 3}), values({3}), values({3})},
                       {values({3, 0}), values({0}), values({0})}}});
}

TEST_CASE("layer_norm: numbers far from zero keep their variance") {
  Numbers numbers;
  for (int i = 0; i < 64; ++i) numbers.push_back(10000 + i % 4);
  const Numbers y = layer_norm(from_vector(numbers, {1, 64})).to_vector();
  const double stddev = std::sqrt(1.25);
  for (int i = 0; i < 4; ++i)
    CHECK(y[static_cast<size_t>(i)] == Approx((i - 1.5) / stddev).epsilon(1e-3));
}

// With moments given, or of the batch.
Array batch_norm_reference(const Arrays& in, const Moments& moments, double eps) {
  Array y = in[0];
  for_each_index(y.shape, [&](const Dims& i) {
    const Dims c{i[1]};
    const double normal = (in[0][i] - moments.mean[c]) / std::sqrt(moments.variance[c] + eps);
    y[i] = normal * (in.size() > 1 ? in[1][c] : 1) + (in.size() > 2 ? in[2][c] : 0);
  });
  return y;
}

const std::vector<std::vector<Input>> kBatches{
    {values({5, 3}), values({3}), values({3})},
    {values({2, 3, 2, 4}), values({3}), values({3})},
    {values({3, 2, 4}), values({2}), values({2})},
    {values({2, 1, 3, 3}), values({1}), values({1})},
};

TEST_CASE("batch_norm in training: values, gradients, layouts and dtypes") {
  check_op(
      {.name = "batch_norm",
       .function = [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], {}, {}); },
       .reference =
           [](const Arrays& in) { return batch_norm_reference(in, moments_along(in[0], 1), 1e-5); },
       .inputs = kBatches});
  check_op(
      {.name = "batch_norm without gamma and beta",
       .function =
           [](const Tensors& in) { return batch_norm(in[0], {}, {}, {}, {}, {.eps = 0.1}); },
       .reference =
           [](const Arrays& in) { return batch_norm_reference(in, moments_along(in[0], 1), 0.1); },
       .inputs = {{values({2, 3, 2, 4})}, {values({4, 2})}}});
}

TEST_CASE("batch_norm in evaluation: values, gradients, layouts and dtypes") {
  std::vector<std::vector<Input>> inputs = kBatches;
  for (auto& set : inputs) {
    const Shape channels = set[1].shape;
    set.push_back(constant(channels));
    set.push_back(constant(channels, 0.5, 2));
  }
  inputs.push_back({values({1, 2}), values({2}), values({2}), constant({2}), constant({2}, 1, 2)});
  check_op({.name = "batch_norm, evaluation",
            .function =
                [](const Tensors& in) {
                  return batch_norm(in[0], in[1], in[2], in[3], in[4], {.training = false});
                },
            .reference =
                [](const Arrays& in) {
                  return batch_norm_reference(in, {in[3], in[4]}, 1e-5);
                },
            .inputs = inputs});
}

TEST_CASE("batch_norm: running statistics move towards those of the batch, unbiased") {
  const Tensor x = from_vector({1, 2, 3, 4, 5, 7}, {3, 2}, {.dtype = DType::f64});
  const Tensor mean = zeros({2}, {.dtype = DType::f64}), var = ones({2}, {.dtype = DType::f64});
  batch_norm(x, {}, {}, mean, var, {.momentum = 0.25});
  // Means 3 and 13/3, unbiased variances 4 and 19/3.
  CHECK(mean.to_vector()[0] == Approx(0.75).epsilon(1e-12));
  CHECK(mean.to_vector()[1] == Approx(13.0 / 12).epsilon(1e-12));
  CHECK(var.to_vector()[0] == Approx(0.75 + 1).epsilon(1e-9));
  CHECK(var.to_vector()[1] == Approx(0.75 + 19.0 / 12).epsilon(1e-9));
  const Numbers before = mean.to_vector();
  batch_norm(x, {}, {}, mean, var, {.training = false});
  CHECK(mean.to_vector() == before);
}

TEST_CASE("batch_norm: running statistics of 16-bit inputs are f32") {
  const Tensor x = from_vector({1, 2, 3, 4}, {4, 1}, {.dtype = DType::bf16});
  const Tensor mean = zeros({1}), var = ones({1});
  const Tensor y = batch_norm(x, {}, {}, mean, var, {.momentum = 0.5});
  CHECK(y.dtype() == DType::bf16);
  CHECK(mean.item() == 1.25);
  CHECK(var.item() == Approx(0.5 + 0.5 * 5 / 3));
}

TEST_CASE("batch_norm: in evaluation later changes of the running statistics do not matter") {
  const Tensor x = from_vector({1, 2, 3, 4}, {4, 1}, {.dtype = DType::f64});
  const Tensor gamma = set_requires_grad(ones({1}, {.dtype = DType::f64}));
  const Tensor mean = full({1}, 1, {.dtype = DType::f64}), var = ones({1}, {.dtype = DType::f64});
  const Tensor loss = sum(batch_norm(x, gamma, {}, mean, var, {.training = false, .eps = 0}));
  fill_(mean, 100);
  fill_(var, 100);
  loss.backward();
  CHECK(gamma.grad().item() == Approx(6));
}

TEST_CASE("batch_norm: channels-last images stay so") {
  const Tensor x = ones({2, 3, 4, 4}).as_strided({2, 3, 4, 4}, {48, 1, 12, 3});
  CHECK(batch_norm(x, {}, {}, {}, {}).strides() == Strides{48, 1, 12, 3});
}

TEST_CASE("normalisations: wrong arguments") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(layer_norm(x, ones({2})), "[layer_norm] wrong gamma: given (2), wanted (3)");
  CHECK_THROWS_WITH(layer_norm(x, ones({3}), ones({3, 1})),
                    "[layer_norm] wrong beta: given (3, 1), wanted (3)");
  CHECK_THROWS_WITH(layer_norm(x, ones({3}, {.dtype = DType::f64})),
                    Contains("[layer_norm] dtypes differ"));
  CHECK_THROWS_WITH(layer_norm(arange(3)), Contains("[layer_norm] wrong dtype"));
  CHECK_THROWS_WITH(batch_norm(ones({3}), {}, {}, {}, {}),
                    Contains("[batch_norm] wrong shape: given (3)"));
  CHECK_THROWS_WITH(batch_norm(x, ones({2}), {}, {}, {}),
                    "[batch_norm] wrong gamma: given (2), wanted (3)");
  CHECK_THROWS_WITH(batch_norm(x, {}, {}, zeros({4}), {}), Contains("wrong running_mean"));
  CHECK_THROWS_WITH(batch_norm(x, ones({3}), ones({3}, {.dtype = DType::f64}), {}, {}),
                    Contains("[batch_norm] dtypes differ"));
  CHECK_THROWS_WITH(batch_norm(ones({1, 3}), {}, {}, {}, {}),
                    "[batch_norm] one value per channel has no variance: given (1, 3) in training, "
                    "wanted more than one");
}

TEST_CASE("rms_norm: values, gradients, layouts and dtypes") {
  check_op({.name = "rms_norm",
            .function = [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-5); },
            .reference =
                [](const Arrays& in) {
                  const int64_t width = in[0].dim(-1);
                  Array y = in[0];
                  for (size_t i = 0; i < y.values.size(); ++i) {
                    const size_t row = i / static_cast<size_t>(width) * static_cast<size_t>(width);
                    double squares = 0;
                    for (size_t j = row; j < row + static_cast<size_t>(width); ++j) {
                      squares += std::pow(in[0].values[j], 2);
                    }
                    y.values[i] = in[0].values[i] * in[1].values[i - row] /
                                  std::sqrt(squares / static_cast<double>(width) + 1e-5);
                  }
                  return y;
                },
            .inputs = {{values({3, 6}), values({6})},
                       {values({2, 2, 5}), values({5})},
                       {values({7}), values({7})}}});
}

}  // namespace
}  // namespace tenon
