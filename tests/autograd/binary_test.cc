// Binary pointwise ops, comparisons, where and casts.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Inputs = std::vector<std::vector<Input>>;

// Pairs of shapes that broadcast in every way.
Inputs broadcasts(double low, double high) {
  auto pair = [&](const Shape& a, const Shape& b) {
    return std::vector<Input>{values(a, low, high), values(b, low, high)};
  };
  return {pair({3, 5}, {3, 5}),    pair({3, 5}, {5}),
          pair({4, 1}, {1, 3}),    pair({}, {2, 3}),
          pair({2, 3, 4}, {3, 1}), pair({1}, {1}),
          pair({0, 3}, {1, 3}),    pair({2, 1, 2, 3}, {2, 3, 1, 1})};
}

struct BinaryCase {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
  double (*reference)(double, double);
  double low = -2, high = 2;
};

const BinaryCase kCases[] = {
    {"add", add, [](double a, double b) { return a + b; }},
    {"sub", sub, [](double a, double b) { return a - b; }},
    {"mul", mul, [](double a, double b) { return a * b; }},
    {"div", div, [](double a, double b) { return a / b; }, 0.5, 2},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
    {"a + b", [](const Tensor& a, const Tensor& b) { return a + b; },
     [](double a, double b) { return a + b; }},
    {"a - b", [](const Tensor& a, const Tensor& b) { return a - b; },
     [](double a, double b) { return a - b; }},
    {"a * b", [](const Tensor& a, const Tensor& b) { return a * b; },
     [](double a, double b) { return a * b; }},
    {"a / b", [](const Tensor& a, const Tensor& b) { return a / b; },
     [](double a, double b) { return a / b; }, 0.5, 2},
};

TEST_CASE("binary ops: values, gradients, broadcasting, layouts and dtypes") {
  for (const BinaryCase& binary : kCases) {
    check_op({.name = binary.name,
              .function = [&](const Tensors& in) { return binary.function(in[0], in[1]); },
              .reference = [&](const auto& in) { return zip(in[0], in[1], binary.reference); },
              .inputs = broadcasts(binary.low, binary.high),
              .loosen = 2});  // 16-bit gradients are rounded before they are added up
  }
}

TEST_CASE("binary ops: both operands may be one tensor") {
  const Tensor x = set_requires_grad(from_vector({1, 2, 3}, {3}, {.dtype = DType::f64}));
  backward(mul(x, x), {.gradient = ones({3}, {.dtype = DType::f64})});
  CHECK(x.grad().to_vector() == Numbers{2, 4, 6});
  zero_grad(x);
  backward(sub(x, x), {.gradient = ones({3}, {.dtype = DType::f64})});
  CHECK(x.grad().to_vector() == Numbers{0, 0, 0});
}

TEST_CASE("maximum and minimum: equal operands share the gradient, NaN wins") {
  const Tensor a = set_requires_grad(from_vector({1, 2}, {2}, {.dtype = DType::f64}));
  const Tensor b = set_requires_grad(from_vector({1, 3}, {2}, {.dtype = DType::f64}));
  backward(maximum(a, b), {.gradient = ones({2}, {.dtype = DType::f64})});
  CHECK(a.grad().to_vector() == Numbers{0.5, 0});
  CHECK(b.grad().to_vector() == Numbers{0.5, 1});
  const Tensor nan = full({2}, std::nan("")), one = ones({2});
  for (const Tensor& result :
       {maximum(nan, one), maximum(one, nan), minimum(nan, one), minimum(one, nan)}) {
    CHECK(std::isnan(result.to_vector()[0]));
  }
}

struct ComparisonCase {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
  bool (*reference)(double, double);
};

const ComparisonCase kComparisons[] = {
    {"eq", eq, [](double a, double b) { return a == b; }},
    {"ne", ne, [](double a, double b) { return a != b; }},
    {"lt", lt, [](double a, double b) { return a < b; }},
    {"le", le, [](double a, double b) { return a <= b; }},
    {"gt", gt, [](double a, double b) { return a > b; }},
    {"ge", ge, [](double a, double b) { return a >= b; }},
};

TEST_CASE("comparisons: values, broadcasting and layouts") {
  for (const ComparisonCase& comparison : kComparisons) {
    check_op({.name = comparison.name,
              .function = [&](const Tensors& in) { return comparison.function(in[0], in[1]); },
              .reference =
                  [&](const auto& in) {
                    return zip(in[0], in[1], [&](double a, double b) {
                      return comparison.reference(a, b) ? 1.0 : 0.0;
                    });
                  },
              .inputs = broadcasts(-2, 2),
              .gradient = false});
  }
}

TEST_CASE("comparisons: every dtype, with equal elements") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    INFO(name_of(dtype));
    const Tensor a = from_vector({0, 1, 1}, {3}, {.dtype = dtype});
    const Tensor b = from_vector({1, 1, 0}, {3}, {.dtype = dtype});
    for (const ComparisonCase& comparison : kComparisons) {
      const Tensor y = comparison.function(a, b);
      CHECK(y.dtype() == DType::boolean);
      CHECK(y.to_vector() == Numbers{comparison.reference(0, 1) ? 1.0 : 0.0,
                                     comparison.reference(1, 1) ? 1.0 : 0.0,
                                     comparison.reference(1, 0) ? 1.0 : 0.0});
    }
  }
  const int64_t large = (int64_t{1} << 53) + 1;
  CHECK_FALSE(
      eq(from_data<int64_t>({large}, {1}), from_data<int64_t>({large - 1}, {1})).item<bool>());
  const Tensor nan = full({1}, std::nan(""));
  CHECK_FALSE(eq(nan, nan).item<bool>());
  CHECK(ne(nan, nan).item<bool>());
}

TEST_CASE("where: values, gradients, broadcasting, layouts and dtypes") {
  check_op({.name = "where",
            .function = [](const Tensors& in) { return where(in[0], in[1], in[2]); },
            .reference =
                [](const auto& in) {
                  Array y(broadcast_shapes("where", in[0].shape,
                                           broadcast_shapes("where", in[1].shape, in[2].shape)));
                  for_each_index(y.shape, [&](const Dims& i) {
                    y[i] = in[in[0].broadcast(i) != 0 ? 1 : 2].broadcast(i);
                  });
                  return y;
                },
            .inputs = {{mask({3, 4}), values({3, 4}), values({3, 4})},
                       {mask({3, 1}), values({4}), values({})},
                       {mask({2, 3}), values({1, 3}), values({2, 1})},
                       {mask({}), values({2}), values({2})},
                       {mask({0, 2}), values({0, 2}), values({1, 2})}}});
  CHECK(where(from_vector({1, 0}, {2}, {.dtype = DType::boolean}), arange(2),
              full({2}, 9, {DType::i64}))
            .to_vector() == Numbers{0, 9});
  CHECK_THROWS_WITH(where(ones({2}), ones({2}), ones({2})),
                    Contains(here("[where] wrong dtype of the condition: given f32 (2) on cpu")));
}

TEST_CASE("to: between all dtypes") {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto from = static_cast<DType>(i), into = static_cast<DType>(j);
      INFO(name_of(from) << " to " << name_of(into));
      const Tensor x = from_vector({0, 1, 3, 100}, {2, 2}, {.dtype = from});
      const Tensor y = to(x, into);
      CHECK(y.dtype() == into);
      const bool boolean = from == DType::boolean || into == DType::boolean;
      CHECK(y.to_vector() == (boolean ? Numbers{0, 1, 1, 1} : Numbers{0, 1, 3, 100}));
    }
  }
  const Tensor x = ones({2});
  CHECK(to(x, DType::f32).is_same(x));
  const Tensor fractions = from_vector({-1.75, 1.75, 0.25}, {3});
  CHECK(to(fractions, DType::i64).to_vector() == Numbers{-1, 1, 0});
  CHECK(to(fractions, DType::boolean).to_vector() == Numbers{1, 1, 1});
}

TEST_CASE("to: the gradient is cast back") {
  check_op({.name = "to f32 and back",
            .function = [](const Tensors& in) { return to(to(in[0], DType::f32), in[0].dtype()); },
            .reference =
                [](const auto& in) {
                  return map(in[0],
                             [](double x) { return static_cast<double>(static_cast<float>(x)); });
                },
            .inputs = {{values({3, 4})}, {values({0})}, {values({})}},
            .loosen = 1e6});  // f32 within f64
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const Tensor x = set_requires_grad(ones({2}, {.dtype = dtype}));
    backward(to(x, DType::f64), {.gradient = from_vector({1, 2}, {2}, {.dtype = DType::f64})});
    CHECK(x.grad().dtype() == dtype);
    CHECK(x.grad().to_vector() == Numbers{1, 2});
  }
  CHECK_FALSE(to(set_requires_grad(ones({2})), DType::i64).requires_grad());
}

TEST_CASE("binary ops: wrong arguments") {
  CHECK_THROWS_WITH(add(ones({2}), ones({2}, {.dtype = DType::f64})),
                    Contains(here("[add] dtypes differ: given f32 (2) on cpu and f64 (2) on cpu")));
  CHECK_THROWS_WITH(mul(ones({2, 3}), ones({2})),
                    Contains("[mul] shapes do not broadcast: given (2, 3) and (2)"));
  CHECK_THROWS_WITH(lt(ones({2}), arange(2)), Contains("[lt] dtypes differ"));
  CHECK_THROWS_WITH(where(ones({2}, {.dtype = DType::boolean}), ones({2}), ones({3})),
                    Contains("[where] shapes do not broadcast"));
  CHECK_THROWS_WITH(div(Tensor(), ones({2})), Contains("undefined tensor"));
}

}  // namespace
}  // namespace tenon
