#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/init.h"
#include "tenon/nn/linear.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using namespace tenon::nn;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

namespace {

struct Moments {
  double mean = 0, stddev = 0, low = 0, high = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<double> values = x.to_vector();
  const auto count = static_cast<double>(values.size());
  Moments result;
  for (const double value : values) result.mean += value / count;
  for (const double value : values) result.stddev += std::pow(value - result.mean, 2) / count;
  result.stddev = std::sqrt(result.stddev);
  result.low = *std::min_element(values.begin(), values.end());
  result.high = *std::max_element(values.begin(), values.end());
  return result;
}

}  // namespace

TEST_CASE("initial values have the moments of their distributions") {
  seed(3);
  const Tensor x = empty({100, 20, 5});  // fan in 100, fan out 500
  CHECK(init::fan_of(x, init::Fan::in) == 100);
  CHECK(init::fan_of(x, init::Fan::out) == 500);
  const auto check = [&](double stddev, double bound) {
    const Moments m = moments(x);
    CHECK(std::abs(m.mean) < 0.04 * stddev);
    CHECK(m.stddev == Approx(stddev).epsilon(0.03));
    CHECK(m.high <= bound);
    CHECK(m.low >= -bound);
  };
  const double none = 1e9;
  init::uniform_(x, -2, 2);
  check(4 / std::sqrt(12.0), 2);
  init::normal_(x, 0, 3);
  check(3, none);
  init::kaiming_uniform_(x);
  check(std::sqrt(2.0 / 100), std::sqrt(6.0 / 100));
  init::kaiming_normal_(x, 1, init::Fan::out);
  check(std::sqrt(1.0 / 500), none);
  init::xavier_uniform_(x, 2);
  check(2 * std::sqrt(2.0 / 600), 2 * std::sqrt(6.0 / 600));
  init::xavier_normal_(x);
  check(std::sqrt(2.0 / 600), none);
  init::trunc_normal_(x, 0, 0.5, -0.5, 0.5);
  check(0.5 * 0.53956, 0.5);
  init::constant_(x, 0.25);
  CHECK(moments(x).low == 0.25);
  CHECK(moments(x).high == 0.25);
}

TEST_CASE("a truncated normal may be off centre") {
  const Tensor x = empty({2000});
  init::trunc_normal_(x, 1, 2, 3, 4);
  CHECK(moments(x).low >= 3);
  CHECK(moments(x).high <= 4);
  CHECK_THAT(error_of([&] { init::trunc_normal_(x, 0, -1); }), Contains("given stddev -1"));
}

TEST_CASE("every rank builds the same model, whatever its dropout draws") {
  std::vector<std::vector<double>> weights;
  for (const int rank : {0, 1, 2}) {
    RankContext context(rank, 3);
    const RankContextScope scope(context);
    seed(11);
    context.dropout.reserve(100 * rank);
    weights.push_back(Linear(4, 4).weight.to_vector());
  }
  CHECK(weights[0] == weights[1]);
  CHECK(weights[0] == weights[2]);
}

TEST_CASE("a linear layer begins like PyTorch's") {
  seed(1);
  Linear linear(400, 300);
  const double bound = 1 / std::sqrt(400.0);
  for (const Tensor& x : {Tensor(linear.weight), Tensor(linear.bias)}) {
    const Moments m = moments(x);
    CHECK(m.high <= bound);
    CHECK(m.low >= -bound);
    CHECK(m.stddev == Approx(bound / std::sqrt(3.0)).epsilon(0.1));
  }
}

TEST_CASE("a vector has no fan") {
  CHECK_THAT(error_of([] { init::kaiming_uniform_(ones({3})); }), Contains("given shape (3)"));
}
