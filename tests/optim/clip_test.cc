#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tenon/autograd/meta.h"
#include "tenon/core/factory.h"
#include "tenon/optim/clip.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NamedTensor with_gradient(const std::string& name, const std::vector<double>& gradient,
                          DType dtype = DType::f64) {
  const Shape shape{static_cast<int64_t>(gradient.size())};
  const Tensor leaf = set_requires_grad(zeros(shape, {dtype}));
  set_grad_slot(leaf, from_vector(gradient, shape, {dtype}));
  set_grad_present(leaf, true);
  return {name, leaf};
}

}  // namespace

TEST_CASE("gradients above the norm are scaled together") {
  const std::vector<NamedTensor> list{with_gradient("a", {3, 0}),
                                      with_gradient("b", {0, -4}),
                                      {"none", set_requires_grad(zeros({2}))}};
  CHECK(grad_norm(list) == Approx(5));
  CHECK(clip_grad_norm(list, 10) == Approx(5));
  CHECK(list[0].tensor.grad().to_vector() == std::vector<double>{3, 0});
  CHECK(clip_grad_norm(list, 1) == Approx(5));
  CHECK(list[0].tensor.grad().to_vector()[0] == Approx(0.6));
  CHECK(list[1].tensor.grad().to_vector()[1] == Approx(-0.8));
  CHECK(grad_norm(list) == Approx(1));
}

TEST_CASE("other norms are known too") {
  const std::vector<NamedTensor> list{with_gradient("a", {3, 0}), with_gradient("b", {0, -4})};
  CHECK(grad_norm(list, 1) == Approx(7));
  CHECK(grad_norm(list, 3) == Approx(std::cbrt(91.0)));
  CHECK(grad_norm(list, kInfinity) == Approx(4));
  CHECK(clip_grad_norm(list, 2, kInfinity) == Approx(4));
  CHECK(list[0].tensor.grad().to_vector()[0] == Approx(1.5));
}

TEST_CASE("norms of f32 gradients add in f64") {
  const std::vector<NamedTensor> list{
      with_gradient("a", std::vector<double>(1 << 16, 1e-4), DType::f32),
      with_gradient("b", {1e4}, DType::f32)};
  CHECK(grad_norm(list) == Approx(std::sqrt(1e8 + 65536 * 1e-8)).epsilon(1e-13));
  CHECK(norm_of_power_sum(grad_power_sum(list)) == grad_norm(list));
}

TEST_CASE("no gradients at all have the norm 0") {
  CHECK(clip_grad_norm({{"none", set_requires_grad(zeros({2}))}}, 1) == 0);
  CHECK(clip_grad_norm({}, 1) == 0);
}

TEST_CASE("a norm that is not finite names the gradient and changes nothing") {
  for (const double norm_type : {2.0, kInfinity}) {
    for (const double value : {kInfinity, std::nan("")}) {
      const std::vector<NamedTensor> list{with_gradient("fine", {3}),
                                          with_gradient("fc.bias", {1, value})};
      CHECK_THAT(error_of([&] { clip_grad_norm(list, 1, norm_type); }),
                 Contains("the gradient of fc.bias is the first that is not finite"));
      CHECK(list[0].tensor.grad().item<double>() == 3);
    }
  }
}

TEST_CASE("bad arguments of clipping are named") {
  const std::vector<NamedTensor> list{with_gradient("a", {3})};
  CHECK_THAT(error_of([&] { clip_grad_norm(list, 0); }), Contains("bad max_norm"));
  CHECK_THAT(error_of([&] { clip_grad_norm(list, 1, 0); }), Contains("bad norm_type"));
}
