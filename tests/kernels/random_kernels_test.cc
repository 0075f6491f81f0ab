#include "tenon/kernels/random.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::Layout;
using testing::make_tensor;
using testing::random_tensor;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr PhiloxKey kKey{0x123456789abcdefu, 0xfedcba987654321u, (uint64_t{1} << 32) - 3};

float number(int64_t i) {
  const auto place = static_cast<uint64_t>(i);
  const auto block = philox(kKey.seed, kKey.stream, kKey.offset + place / 4);
  return uniform_from_bits(block[place % 4]);
}

}  // namespace

TEST_CASE("uniform uses number i of the key for element i") {
  for (const int64_t count : {0, 1, 3, 64, 67, 1023, 1025, 30001}) {
    Tensor out = empty({count});
    kernels::uniform(testing::device_type(), out, 0, 1, kKey);
    const std::vector<double> got = out.to_vector();
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      wrong += got[static_cast<size_t>(i)] != static_cast<double>(number(i));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("uniform stays in [low, high) in every dtype") {
  for (const DType dtype : kFloating) {
    for (const auto& [low, high] : {std::pair{-2.0, 3.0}, {0.0, 1.0}, {-1.0, 0.0}, {0.1, 0.1001}}) {
      Tensor out = empty({20000}, {.dtype = dtype});
      kernels::uniform(testing::device_type(), out, low, high, kKey);
      double least = INFINITY, most = -INFINITY, sum = 0;
      for (const double value : out.to_vector()) {
        least = std::min(least, value);
        most = std::max(most, value);
        sum += value;
      }
      INFO(dtype << " from " << low << " to " << high);
      CHECK(most < high);
      const double rounding = testing::tolerance(dtype);
      CHECK(least >= low - rounding * std::abs(low));
      CHECK(std::abs(sum / 20000 - (low + high) / 2) < 0.02 * (high - low) + rounding);
    }
  }
}

TEST_CASE("normal is Box-Muller on pairs of numbers") {
  for (const DType dtype : kFloating) {
    for (const int64_t count : {0, 1, 2, 65, 5001}) {
      Tensor out = empty({count}, {.dtype = dtype});
      kernels::normal(testing::device_type(), out, 0.5, 2, kKey);
      const std::vector<double> got = out.to_vector();
      double worst = 0;
      for (int64_t i = 0; i < count; ++i) {
        const double u = 1 - static_cast<double>(number(i / 2 * 2));
        const double angle = 2 * std::acos(-1.0) * static_cast<double>(number(i / 2 * 2 + 1));
        const double z =
            std::sqrt(-2 * std::log(u)) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
        const double wanted = 0.5 + 2 * z;
        worst = std::max(worst, std::abs(got[static_cast<size_t>(i)] - wanted) /
                                    std::max(1.0, std::abs(wanted)));
      }
      INFO(count << " " << dtype);
      CHECK(worst < (dtype == DType::f64 ? 1e-12 : testing::tolerance(dtype)));
    }
  }
}

TEST_CASE("dropout keeps the elements whose number is at least p and scales them") {
  for (const DType dtype : kFloating) {
    for (const double p : {0.0, 0.25, 0.5, 1.0}) {
      const Tensor x = random_tensor({1100}, dtype, 1), dy = random_tensor({1100}, dtype, 2);
      Tensor y = empty({1100}, {.dtype = dtype}), dx = empty({1100}, {.dtype = dtype});
      Tensor mask = empty({1100}, {.dtype = DType::u8});
      kernels::dropout(testing::device_type(), x, y, mask, p, kKey);
      kernels::dropout_backward(testing::device_type(), dy, mask, dx, p);
      std::vector<double> kept, wanted, gradient;
      for (int64_t i = 0; i < 1100; ++i) {
        const auto at = static_cast<size_t>(i);
        kept.push_back(static_cast<double>(number(i)) >= p);
        const double factor = p < 1 ? 1 / (1 - p) : 0;
        wanted.push_back(kept.back() * factor * x.to_vector()[at]);
        gradient.push_back(kept.back() * factor * dy.to_vector()[at]);
      }
      CHECK(mask.to_vector() == kept);
      CHECK(testing::max_error(y.to_vector(), wanted) < testing::tolerance(dtype));
      CHECK(testing::max_error(dx.to_vector(), gradient) < testing::tolerance(dtype));
    }
  }
}

TEST_CASE("dropout_backward takes gradients of any layout") {
  const Shape shape{30, 41};
  const Tensor x = random_tensor(shape);
  Tensor y = empty(shape), mask = empty(shape, {.dtype = DType::u8}), dx = empty(shape);
  kernels::dropout(testing::device_type(), x, y, mask, 0.5, kKey);
  const Tensor dy = make_tensor(x.to_vector(), shape, DType::f32, Layout::transposed);
  kernels::dropout_backward(testing::device_type(), dy, mask, dx, 0.5);
  CHECK(dx.to_vector() == y.to_vector());
}

TEST_CASE("random numbers do not depend on the number of threads") {
  const int before = num_threads();
  Tensor one = empty({70001}), several = empty({70001});
  set_num_threads(1);
  kernels::normal(testing::device_type(), one, 0, 1, kKey);
  set_num_threads(3);
  kernels::normal(testing::device_type(), several, 0, 1, kKey);
  set_num_threads(before);
  CHECK(one.to_vector() == several.to_vector());
}

}  // namespace tenon
