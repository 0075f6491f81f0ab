// Every unary pointwise op, against libm.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Tensors = std::vector<Tensor>;

struct UnaryCase {
  const char* name;
  Tensor (*function)(const Tensor&);
  double (*reference)(double);
  double low = -2, high = 2;
};

const double kSqrtHalf = std::sqrt(0.5);
double gelu_of(double x) { return 0.5 * x * (1 + std::erf(x * kSqrtHalf)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const UnaryCase kCases[] = {
    {"neg", neg, [](double x) { return -x; }},
    {"affine", [](const Tensor& x) { return affine(x, 1.5, -0.25); },
     [](double x) { return 1.5 * x - 0.25; }},
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"log", log, [](double x) { return std::log(x); }, 0.1, 4},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.25, 4},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.25, 4},
    {"square", square, [](double x) { return x * x; }},
    {"reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.5, 4},
    {"reciprocal of negatives", reciprocal, [](double x) { return 1 / x; }, -4, -0.5},
    {"abs", abs, [](double x) { return std::abs(x); }},
    {"sin", sin, [](double x) { return std::sin(x); }, -7, 7},
    {"cos", cos, [](double x) { return std::cos(x); }, -7, 7},
    {"tanh", tanh, [](double x) { return std::tanh(x); }, -4, 4},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -6, 6},
    {"erf", erf, [](double x) { return std::erf(x); }, -3, 3},
    {"relu", relu, [](double x) { return std::max(x, 0.0); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.125); },
     [](double x) { return x > 0 ? x : 0.125 * x; }},
    {"gelu", gelu, gelu_of, -4, 4},
    {"gelu_tanh", gelu_tanh, gelu_tanh_of, -4, 4},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }, -6, 6},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.7, 1.1); },
     [](double x) { return std::min(std::max(x, -0.7), 1.1); }},
    {"pow 3", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return std::pow(x, 3); },
     0.25, 2},
    {"pow -1.5", [](const Tensor& x) { return pow(x, -1.5); },
     [](double x) { return std::pow(x, -1.5); }, 0.5, 2},
    {"pow 1", [](const Tensor& x) { return pow(x, 1); }, [](double x) { return x; }},
    {"pow 2", [](const Tensor& x) { return pow(x, 2); }, [](double x) { return x * x; }},
    {"pow -1", [](const Tensor& x) { return pow(x, -1); }, [](double x) { return 1 / x; }, 0.5, 2},
    {"pow 0.5", [](const Tensor& x) { return pow(x, 0.5); }, [](double x) { return std::sqrt(x); },
     0.25, 2},
    {"x + s", [](const Tensor& x) { return x + 0.5; }, [](double x) { return x + 0.5; }},
    {"x - s", [](const Tensor& x) { return x - 0.5; }, [](double x) { return x - 0.5; }},
    {"x * s", [](const Tensor& x) { return x * 0.75; }, [](double x) { return x * 0.75; }},
    {"x / s", [](const Tensor& x) { return x / 0.75; }, [](double x) { return x / 0.75; }},
    {"s + x", [](const Tensor& x) { return 0.5 + x; }, [](double x) { return 0.5 + x; }},
    {"s - x", [](const Tensor& x) { return 0.5 - x; }, [](double x) { return 0.5 - x; }},
    {"s * x", [](const Tensor& x) { return 0.75 * x; }, [](double x) { return 0.75 * x; }},
    {"s / x", [](const Tensor& x) { return 0.5 / x; }, [](double x) { return 0.5 / x; }, 0.5, 2},
    {"-x", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
};

TEST_CASE("unary ops: values, gradients, layouts and dtypes") {
  for (const UnaryCase& unary : kCases) {
    check_op({.name = unary.name,
              .function = [&](const Tensors& in) { return unary.function(in[0]); },
              .reference = [&](const auto& in) { return map(in[0], unary.reference); },
              .inputs = {{values({3, 5}, unary.low, unary.high)},
                         {values({}, unary.low, unary.high)},
                         {values({2, 1, 2, 3}, unary.low, unary.high)},
                         {values({0, 3}, unary.low, unary.high)}}});
  }
}

TEST_CASE("unary ops: long tensors, where whole vectors are computed at once") {
  for (const UnaryCase& unary : kCases) {
    INFO(unary.name);
    std::vector<double> numbers;
    for (int i = 0; i < 2500; ++i) {
      numbers.push_back(unary.low + (unary.high - unary.low) * (i + 0.5) / 2500);
    }
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Tensor x = from_vector(numbers, {2500}, {.dtype = dtype});
      const Array exact(x), got(unary.function(x)), wanted = map(exact, unary.reference);
      const double tolerance = tolerance_of(dtype).forward;
      double worst = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const double error = std::abs(got.values[i] - wanted.values[i]);
        worst = std::max(worst, error / std::max(1.0, std::abs(wanted.values[i])));
      }
      CHECK(worst <= tolerance);
    }
  }
}

TEST_CASE("unary ops: special values") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : {DType::f32, DType::f64}) {
    auto one = [&](Tensor (*f)(const Tensor&), double x) {
      return f(full({7}, x, {.dtype = dtype})).to_vector()[6];
    };
    CHECK(one(exp, -infinity) == 0);
    CHECK(one(exp, infinity) == infinity);
    CHECK(one(exp, 1e4) == infinity);
    CHECK(one(exp, -1e4) == 0);
    CHECK(one(log, 0) == -infinity);
    CHECK(one(log, infinity) == infinity);
    CHECK(std::isnan(one(log, -1)));
    CHECK(one(tanh, 1e4) == 1);
    CHECK(one(tanh, -infinity) == -1);
    CHECK(one(sigmoid, -1e4) == 0);
    CHECK(one(sigmoid, 1e4) == 1);
    CHECK(one(erf, infinity) == 1);
    CHECK(one(erf, -1e4) == -1);
    CHECK(one(relu, infinity) == infinity);
    CHECK(one(gelu, -1e4) == 0);
    CHECK(one(silu, 1e4) == 1e4);
    CHECK(std::abs(one(silu, -1e4)) == 0);
    for (const UnaryCase& unary : kCases) {
      INFO(unary.name);
      CHECK(std::isnan(unary.function(full({3}, nan, {.dtype = dtype})).to_vector()[1]));
    }
  }
}

TEST_CASE("unary ops: wrong arguments") {
  using Catch::Contains;
  CHECK_THROWS_WITH(exp(arange(3)),
                    here("[exp] wrong dtype: given i64 (3) on cpu, wanted a floating dtype"));
  CHECK_THROWS_WITH(clamp(ones({2}), 1, 0), "[clamp] empty range: given [1, 0]");
  CHECK_THROWS_WITH(relu(Tensor()), Contains("undefined tensor"));
}

}  // namespace
}  // namespace tenon
