#include "tenon/kernels/copy.h"
#include "tenon/tests/support/device.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::applies;
using testing::kLayouts;
using testing::Layout;
using testing::make_tensor;

}  // namespace

TEST_CASE("copy converts between all dtypes") {
  const std::vector<double> values{0, 1, 2.75, 100.5, 3};
  for (int from = 0; from < kDTypeCount; ++from) {
    for (int to = 0; to < kDTypeCount; ++to) {
      const auto from_type = static_cast<DType>(from), to_type = static_cast<DType>(to);
      const Tensor x = from_vector(values, {5}, {.dtype = from_type});
      Tensor y = empty({5}, {.dtype = to_type});
      kernels::copy(testing::device_type(), x, y);
      const Tensor wanted = from_vector(x.to_vector(), {5}, {.dtype = to_type});
      INFO(from_type << " to " << to_type);
      CHECK(y.to_vector() == wanted.to_vector());
    }
  }
}

TEST_CASE("copy works between all layouts") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{40, 33}, Shape{65, 130},
                             Shape{2, 3, 5, 7}, Shape{2, 0, 3}}) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 251));
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::u8}) {
      for (const Layout from : kLayouts) {
        for (const Layout to : kLayouts) {
          if (!applies(from, shape) || !applies(to, shape) || to == Layout::repeated) continue;
          const Tensor x = make_tensor(values, shape, dtype, from);
          for (const DType out : {dtype, DType::f32}) {
            Tensor y = make_tensor(std::vector<double>(values.size(), 9), shape, out, to);
            kernels::copy(testing::device_type(), x, y);
            INFO(describe(x) << " " << name_of(from) << " to " << name_of(to));
            CHECK(y.to_vector() == x.to_vector());
          }
        }
      }
    }
  }
}

TEST_CASE("copy leaves the elements between those of a strided tensor alone") {
  Tensor memory = zeros({20});
  Tensor spaced = memory.as_strided({10}, {2});
  kernels::copy(testing::device_type(), ones({10}), spaced);
  double sum = 0;
  for (const double value : memory.to_vector()) sum += value;
  CHECK(sum == 10);
}

TEST_CASE("fill sets every element in every layout and dtype") {
  for (int type = 0; type < kDTypeCount; ++type) {
    for (const Layout layout : kLayouts) {
      if (layout == Layout::repeated) continue;
      const Shape shape{2, 3, 4, 5};
      Tensor x = make_tensor(std::vector<double>(120, 0), shape, static_cast<DType>(type), layout);
      kernels::fill(testing::device_type(), x, 1);
      CHECK(x.to_vector() == std::vector<double>(120, 1));
    }
  }
  Tensor none = empty({0});
  kernels::fill(testing::device_type(), none, 1);
}

}  // namespace tenon
