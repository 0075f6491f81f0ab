// Random tensors and dropout.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/dropout.h"
#include "tenon/autograd/ops/random.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Numbers = std::vector<double>;

struct Statistics {
  double mean = 0, variance = 0, low = 1e300, high = -1e300;
};
Statistics statistics_of(const Numbers& x) {
  Statistics s;
  const auto count = static_cast<double>(x.size());
  for (const double v : x) {
    s.mean += v / count;
    s.low = std::min(s.low, v);
    s.high = std::max(s.high, v);
  }
  for (const double v : x) s.variance += (v - s.mean) * (v - s.mean) / count;
  return s;
}

TEST_CASE("rand: uniform, from the numbers of Philox") {
  Generator generator(5, 9);
  const Numbers x = rand({40000}, {}, &generator).to_vector();
  const Statistics s = statistics_of(x);
  CHECK(s.mean == Approx(0.5).margin(0.01));
  CHECK(s.variance == Approx(1.0 / 12).margin(0.003));
  CHECK(s.low >= 0);
  CHECK(s.high < 1);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(x[i] == static_cast<double>(uniform_from_bits(philox(5, 9, i / 4)[i % 4])));
  }
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    Generator again(5, 9);
    const Statistics other = statistics_of(rand({40000}, {.dtype = dtype}, &again).to_vector());
    CHECK(other.mean == Approx(0.5).margin(0.01));
    CHECK(other.high < 1);  // also after rounding to few bits
  }
}

TEST_CASE("randn: normal") {
  Generator generator(5);
  const Numbers x = randn({40001}, {}, &generator).to_vector();
  const Statistics s = statistics_of(x);
  CHECK(s.mean == Approx(0).margin(0.02));
  CHECK(s.variance == Approx(1).margin(0.03));
  CHECK(s.high > 3.5);
  CHECK(s.high < 7);
  double third = 0, fourth = 0, neighbours = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    third += std::pow(x[i], 3) / 40000;
    fourth += std::pow(x[i], 4) / 40000;
    neighbours += x[i] * x[i + 1] / 40000;
  }
  CHECK(third == Approx(0).margin(0.06));
  CHECK(fourth == Approx(3).margin(0.2));
  CHECK(neighbours == Approx(0).margin(0.02));
}

TEST_CASE("random tensors: numbers depend on key and place only") {
  Generator one(3), other(3);
  const Numbers x = randn({1000}, {}, &one).to_vector();
  for (const int64_t count : {1, 2, 3, 5, 17, 999}) {
    other = Generator(3);
    const Numbers y = randn({count}, {}, &other).to_vector();
    CHECK(std::equal(y.begin(), y.end(), x.begin()));
  }
  // Another layout gets the same numbers by index.
  other = Generator(3);
  const Tensor strided = empty({10, 100}).as_strided({100, 10}, {1, 100});
  normal_(strided, 0, 1, &other);
  CHECK(strided.to_vector() == x);
  CHECK(strided.version() == 1);
  // The next call goes on.
  const Numbers next = randn({4}, {}, &one).to_vector();
  CHECK(next[0] != x[0]);
}

TEST_CASE("random tensors: ranks draw from their own streams, seeds repeat them") {
  RankContext rank0(0, 2), rank1(1, 2);
  Numbers x0, x1, again;
  {
    const RankContextScope scope(rank0);
    seed(7);
    x0 = rand({8}).to_vector();
    seed(7);
    again = rand({8}).to_vector();
  }
  {
    const RankContextScope scope(rank1);
    seed(7);
    x1 = rand({8}).to_vector();
  }
  CHECK(x0 == again);
  CHECK(x0 != x1);
}

TEST_CASE("random tensors: ranges and wrong arguments") {
  const Tensor x = empty({1000});
  uniform_(x, -3, 2);
  const Statistics s = statistics_of(x.to_vector());
  CHECK(s.low >= -3);
  CHECK(s.high < 2);
  normal_(x, 10, 0);
  CHECK(x.to_vector() == Numbers(1000, 10));
  CHECK(rand({0, 3}).numel() == 0);
  CHECK_THROWS_WITH(uniform_(x, 1, 0), "[uniform] empty range: given [1, 0)");
  CHECK_THROWS_WITH(normal_(x, 0, -1), "[normal] negative standard deviation: given -1");
  CHECK_THROWS_WITH(rand({2}, {.dtype = DType::i64}), Contains("[uniform] wrong dtype"));
  CHECK_THROWS_WITH(normal_(set_requires_grad(ones({2})), 0, 1),
                    Contains("[normal] change in place of a tensor that requires a gradient"));
}

TEST_CASE("dropout: gradients, layouts and dtypes") {
  check_op({.name = "dropout",
            .function =
                [](const std::vector<Tensor>& in) {
                  RankContext context;
                  const RankContextScope scope(context);
                  seed(11);
                  return dropout(in[0], 0.4);
                },
            .reference = {},
            .inputs = {{values({4, 6})}, {values({2, 3, 2, 2})}, {values({0})}, {values({})}}});
}

TEST_CASE("dropout: keeps 1 - p of the elements, scaled, and their gradients") {
  seed(3);
  for (const double p : {0.1, 0.5, 0.9}) {
    const Tensor x = set_requires_grad(ones({20000}, {.dtype = DType::f64}));
    const Tensor y = dropout(x, p);
    double kept = 0;
    bool only_two_values = true;
    for (const double v : y.to_vector()) {
      kept += v != 0;
      only_two_values = only_two_values && (v == 0 || std::abs(v - 1 / (1 - p)) < 1e-6);
    }
    CHECK(only_two_values);
    CHECK(kept / 20000 == Approx(1 - p).margin(0.015));
    sum(y).backward();
    CHECK(x.grad().to_vector() == y.to_vector());
  }
}

TEST_CASE("dropout: the same key gives the same mask whatever dtype and layout") {
  Numbers masks[3];
  const Tensor x = ones({30, 40});
  int i = 0;
  for (const Tensor& input :
       {x, ones({30, 40}, {.dtype = DType::bf16}), transpose(ones({40, 30}))}) {
    seed(5);
    for (const double v : dropout(input, 0.5).to_vector()) masks[i].push_back(v != 0);
    ++i;
  }
  CHECK(masks[0] == masks[1]);
  CHECK(masks[0] == masks[2]);
  seed(5);
  dropout(x, 0.5);
  Numbers next;
  for (const double v : dropout(x, 0.5).to_vector()) next.push_back(v != 0);
  CHECK(next != masks[0]);
}

TEST_CASE("dropout: without effect, and wrong arguments") {
  const Tensor x = ones({3});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0).is_same(x));
  CHECK_THROWS_WITH(dropout(x, 1), "[dropout] wrong probability: given 1, wanted [0, 1)");
  CHECK_THROWS_AS(dropout(x, -0.1), Error);
  CHECK_THROWS_WITH(dropout(arange(3), 0.5), Contains("[dropout] wrong dtype"));
}

}  // namespace
}  // namespace tenon
