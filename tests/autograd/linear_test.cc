// Linear layers and what is fused with them.
#include "tenon/autograd/ops/linear.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

Array linear_reference(const Arrays& in, bool with_relu) {
  const Array &x = in[0], &weight = in[1];
  Shape shape = x.shape;
  const int last = shape.size() - 1;
  shape[last] = weight.dim(0);
  Array y(shape);
  for_each_index(shape, [&](const Dims& i) {
    double total = in.size() > 2 ? in[2][Dims{i[last]}] : 0;
    for (int64_t k = 0; k < x.dim(-1); ++k) {
      Dims at = i;
      at[last] = k;
      total += x[at] * weight[Dims{i[last], k}];
    }
    y[i] = with_relu && total < 0 ? 0 : total;
  });
  return y;
}

TEST_CASE("linear: values, gradients, layouts and dtypes") {
  check_op({.name = "linear",
            .function = [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
            .reference = [](const Arrays& in) { return linear_reference(in, false); },
            .inputs = {{values({3, 4}), values({5, 4}), values({5})},
                       {values({2, 3, 4}), values({5, 4}), values({5})},
                       {values({4}), values({5, 4}), values({5})},
                       {values({1, 1}), values({1, 1}), values({1})},
                       {values({0, 4}), values({5, 4}), values({5})},
                       {values({3, 0}), values({5, 0}), values({5})}}});
  check_op({.name = "linear without bias",
            .function = [](const Tensors& in) { return linear(in[0], in[1]); },
            .reference = [](const Arrays& in) { return linear_reference(in, false); },
            .inputs = {{values({3, 4}), values({5, 4})}, {values({2, 2, 3}), values({1, 3})}}});
}

TEST_CASE("linear with relu: values, gradients, layouts and dtypes") {
  check_op(
      {.name = "linear relu",
       .function = [](const Tensors& in) { return linear(in[0], in[1], in[2], Activation::relu); },
       .reference = [](const Arrays& in) { return linear_reference(in, true); },
       .inputs = {{values({3, 4}), values({6, 4}), values({6})},
                  {values({2, 2, 3}), values({4, 3}), values({4})}}});
  check_op(
      {.name = "linear relu without bias",
       .function = [](const Tensors& in) { return linear(in[0], in[1], {}, Activation::relu); },
       .reference = [](const Arrays& in) { return linear_reference(in, true); },
       .inputs = {{values({3, 4}), values({6, 4})}}});
}

TEST_CASE("linear with gelu: only where nothing is recorded") {
  const Tensor x = from_vector({-1, 0.5, 2, 1, -0.25, 0}, {2, 3}, {.dtype = DType::f64});
  const Tensor weight = from_vector({1, -1, 0.5, 0.25, 2, -2}, {2, 3}, {.dtype = DType::f64});
  const Array wanted(gelu(linear(x, weight)));
  const Array got(linear(x, weight, {}, Activation::gelu));
  for (size_t i = 0; i < got.values.size(); ++i) {
    CHECK(got.values[i] == Approx(wanted.values[i]).margin(1e-12));
  }
  set_requires_grad(weight);
  CHECK_THROWS_WITH(linear(x, weight, {}, Activation::gelu),
                    "[linear] gelu cannot be fused while recording: wanted gelu(linear(…))");
  const NoGrad no_grad;
  CHECK_NOTHROW(linear(x, weight, {}, Activation::gelu));
}

Array activated_reference(InputActivation f, const Array& x) {
  switch (f) {
    case InputActivation::gelu:
      return map(x, [](double v) { return v / 2 * (1 + std::erf(v * std::sqrt(0.5))); });
    case InputActivation::gelu_tanh:
      return map(x, [](double v) {
        return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      });
    case InputActivation::swiglu:
      break;
    case InputActivation::none:
      return x;
  }
  Shape shape = x.shape;
  const int last = shape.size() - 1;
  shape[last] /= 2;
  Array y(shape);
  for_each_index(shape, [&](const Dims& i) {
    Dims value = i;
    value[last] += shape[last];
    y[i] = x[i] / (1 + std::exp(-x[i])) * x[value];
  });
  return y;
}

TEST_CASE("activated_linear: values, gradients, layouts and dtypes") {
  const std::pair<const char*, InputActivation> kinds[] = {
      {"gelu", InputActivation::gelu},
      {"gelu_tanh", InputActivation::gelu_tanh},
      {"swiglu", InputActivation::swiglu},
      {"none", InputActivation::none}};
  for (const auto& [name, f] : kinds) {
    const int64_t wide = f == InputActivation::swiglu ? 2 : 1;
    const auto reference = [f = f](const Arrays& in) {
      Arrays product{activated_reference(f, in[0]), in[1]};
      if (in.size() > 2) product.push_back(in[2]);
      const Array y = linear_reference(product, false);
      return in.size() > 3 ? zip(y, in[3], std::plus()) : y;
    };
    check_op(
        {.name = str("linear of ", name, " with a residual"),
         .function =
             [f = f](const Tensors& in) { return activated_linear(f, in[0], in[1], in[2], in[3]); },
         .reference = reference,
         .inputs = {{values({3, wide * 4}), values({5, 4}), values({5}), values({3, 5})},
                    {values({2, 3, wide * 4}), values({2, 4}), values({2}), values({2, 3, 2})},
                    {values({0, wide * 4}), values({5, 4}), values({5}), values({0, 5})}}});
    check_op({.name = str("linear of ", name, " without bias"),
              .function = [f = f](const Tensors& in) { return activated_linear(f, in[0], in[1]); },
              .reference = reference,
              .inputs = {{values({3, wide * 4}), values({5, 4})}}});
  }
}

TEST_CASE("activated_linear keeps its input alone for backward") {
  const Tensor x = set_requires_grad(ones({64, 128})), weight = ones({8, 128});
  const MemoryCounters& memory = *rank_context().memory;
  const int64_t before = memory.live();
  const Tensor fused = activated_linear(InputActivation::gelu, x, weight);
  CHECK(memory.live() - before < 64 * 128 * 4);
  const Tensor apart = linear(gelu(x), set_requires_grad(weight));
  CHECK(memory.live() - before > 64 * 128 * 4);
}

TEST_CASE("activated_linear: bad input is one error") {
  const auto f = InputActivation::swiglu;
  CHECK_THROWS_WITH(activated_linear(f, ones({2, 5}), ones({4, 2})),
                    Contains("[swiglu] wrong shape: given (2, 5)"));
  CHECK_THROWS_WITH(activated_linear(f, ones({2, 6}), ones({4, 2})),
                    Contains("[linear] shapes do not fit"));
  CHECK_THROWS_WITH(activated_linear(f, ones({2, 4}), ones({4, 2}), {}, ones({2, 3})),
                    Contains("[linear_add] wrong residual: given (2, 3), wanted (2, 4)"));
}

}  // namespace
}  // namespace tenon
