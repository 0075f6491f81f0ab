// What the tests of kernels/ do not reach: reductions that are split over blocks, rows of every
// number of threads, packed and barely aligned memory, long lists of tensors.
#include "tenon/kernels/reduce.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tenon/core/runtime.h"
#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::AxisMask;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

// Values in [0.05, 1.05): sums of many do not cancel.
Pair positive(const Shape& shape, DType dtype) {
  std::vector<double> values = Pair(shape, DType::f64, 1).cpu.to_vector();
  for (double& value : values) value = 0.5 * value + 0.55;
  const Tensor x = from_vector(values, shape, {dtype, kCpu});
  return {x, copied_to(x, kCuda)};
}

Shape reduced_shape(const Shape& shape, AxisMask axes) {
  Shape result = shape;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if ((axes >> axis & 1u) != 0) result[axis] = 1;
  }
  return result;
}

void check_sum(const Pair& x, AxisMask axes) {
  INFO(describe(x.cuda) << " strides " << x.cuda.strides() << " offset " << x.cuda.offset()
                        << " axes " << axes);
  Pair out(reduced_shape(x.cpu.shape(), axes), x.cpu.dtype(), 9);
  for (const auto& [scale, accumulate] : {std::pair{1.0, false}, {0.25, true}}) {
    kernels::sum(DeviceType::cpu, x.cpu, out.cpu, axes, scale, accumulate);
    kernels::sum(DeviceType::cuda, x.cuda, out.cuda, axes, scale, accumulate);
    CHECK(max_error(out.cuda.to_vector(), out.cpu.to_vector()) < tolerance(x.cpu.dtype()));
  }
}

void check_extremes(const Pair& x, int axis) {
  const Shape shape = reduced_shape(x.cpu.shape(), 1u << axis);
  Pair values(shape, x.cpu.dtype(), 1);
  Tensor place = empty(shape, {DType::i64, kCpu}), cuda_place = empty(shape, {DType::i64, kCuda});
  for (auto* slot : {&kernels::max, &kernels::min}) {
    (*slot)(DeviceType::cpu, x.cpu, values.cpu, place, axis);
    (*slot)(DeviceType::cuda, x.cuda, values.cuda, cuda_place, axis);
    INFO(slot->op() << " along " << axis << " of " << describe(x.cuda) << " strides "
                    << x.cuda.strides());
    CHECK(values.cuda.to_vector() == values.cpu.to_vector());
    CHECK(cuda_place.to_vector() == place.to_vector());
  }
}

}  // namespace

TEST_CASE("cuda sum and max: rows and columns of every kind") {
  for (const DType dtype : kFloating) {
    for (const Shape& shape : {Shape{1, 20000}, Shape{3, 5001}, Shape{2000, 8}, Shape{300, 40},
                               Shape{9, 33}, Shape{64, 1031}}) {
      const Pair x = positive(shape, dtype);
      const Pair turned = x.view({shape[1], shape[0]}, {1, shape[1]});
      for (const AxisMask axes : {0u, 1u, 2u, 3u}) {
        check_sum(x, axes);
        check_sum(turned, axes);
      }
      for (const int axis : {0, 1}) {
        check_extremes(x, axis);
        check_extremes(turned, axis);
      }
    }
  }
}

TEST_CASE("cuda sum: parts of a larger tensor at offsets that are aligned or not") {
  for (const DType dtype : kFloating) {
    const Pair store({4000}, dtype, 2);
    for (const int64_t offset : {0, 1, 3, 8, 16}) {
      for (const int64_t row : {40, 41, 48}) {
        const Pair x = store.view({3, 10, 32}, {12 * row, row, 1}, offset);
        for (AxisMask axes = 0; axes < 8; ++axes) check_sum(x, axes);
        check_sum(store.view({3, 10, 32}, {12 * row, row, 0}, offset), 5);
        check_sum(store.view({3, 10, 32}, {0, row, 1}, offset), 4);
      }
    }
  }
}

TEST_CASE("cuda sum: integers") {
  for (const DType dtype : {DType::i64, DType::i32}) {
    const Tensor x = arange(6000, {dtype, kCpu}).alias(0, {60, 100});
    const Pair pair(x, copied_to(x, kCuda));
    for (const AxisMask axes : {1u, 2u, 3u}) check_sum(pair, axes);
    check_extremes(pair, 0);
    check_extremes(pair, 1);
  }
}

TEST_CASE("cuda sum: the same bits in every run") {
  const Pair x({301, 999}, DType::f32, 1);
  for (const AxisMask axes : {1u, 2u, 3u}) {
    const Shape shape = reduced_shape(x.cpu.shape(), axes);
    Tensor once = empty(shape, {DType::f32, kCuda}), again = empty(shape, {DType::f32, kCuda});
    kernels::sum(DeviceType::cuda, x.cuda, once, axes, 1, false);
    kernels::sum(DeviceType::cuda, x.cuda, again, axes, 1, false);
    CHECK(once.to_vector() == again.to_vector());
  }
}

TEST_CASE("cuda max: the first of many equal values, NaN before all") {
  std::vector<double> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 5);
  const Tensor equal = from_vector(values, {2, 2500}, {DType::f32, kCpu});
  check_extremes({equal, copied_to(equal, kCuda)}, 1);
  check_extremes({equal, copied_to(equal, kCuda)}, 0);
  values[1700] = values[1900] = NAN;
  const Tensor x = from_vector(values, {5000}, {DType::f32, kCpu});
  Tensor best = empty({1}, {DType::f32, kCuda}), place = empty({1}, {DType::i64, kCuda});
  for (auto* slot : {&kernels::max, &kernels::min}) {
    (*slot)(DeviceType::cuda, copied_to(x, kCuda), best, place, 0);
    CHECK(std::isnan(best.item<double>()));
    CHECK(place.item<int64_t>() == 1700);
  }
}

TEST_CASE("cuda scatter_add: many lines, and an index out of range") {
  const Pair x({70, 30, 11}, DType::f32, 1);
  for (int axis = 0; axis < 3; ++axis) {
    const Shape shape = reduced_shape(x.cpu.shape(), 1u << axis);
    Pair values(shape, DType::f32, 2), dx(x.cpu.shape(), DType::f32, 3);
    Tensor place = empty(shape, {DType::i64, kCpu});
    kernels::max(DeviceType::cpu, x.cpu, values.cpu, place, axis);
    kernels::scatter_add(DeviceType::cpu, values.cpu, place, dx.cpu, axis);
    kernels::scatter_add(DeviceType::cuda, copied_to(values.cpu, kCuda), copied_to(place, kCuda),
                         dx.cuda, axis);
    CHECK(dx.cuda.to_vector() == dx.cpu.to_vector());
  }
  Pair dy({1, 3}, DType::f32, 1), dx({4, 3}, DType::f32, 2);
  const Tensor wrong = from_data<int64_t>({0, 4, 1}, {1, 3}, Category::activation, kCpu);
  kernels::scatter_add(DeviceType::cuda, dy.cuda, copied_to(wrong, kCuda), dx.cuda, 0);
  CHECK_THROWS_WITH(synchronize(kCuda),
                    Catch::Contains("[scatter_add] index out of range: given 4"));
}

TEST_CASE("cuda power_sum: more tensors than one launch takes, of all dtypes and layouts") {
  std::vector<Tensor> cpu, cuda;
  const auto add = [&](const Pair& pair) {
    cpu.push_back(pair.cpu);
    cuda.push_back(pair.cuda);
  };
  for (unsigned i = 0; i < 150; ++i) add(Pair({static_cast<int64_t>(i) * 3}, kFloating[i % 4], i));
  const Pair large({50001}, DType::bf16, 3), matrix({90, 80}, DType::f32, 4);
  add(large);
  add(large.view({40000}, {1}, 1));
  add(matrix.view({80, 90}, {1, 80}));
  add(matrix.view({30, 20}, {240, 3}, 5));
  add(matrix.view({7, 80}, {0, 1}));
  for (const double p : {1.0, 2.0, 3.0, 0.5, static_cast<double>(INFINITY)}) {
    Tensor wanted = empty({}, {DType::f64, kCpu}), got = empty({}, {DType::f64, kCuda});
    kernels::power_sum(DeviceType::cpu, cpu, p, wanted);
    kernels::power_sum(DeviceType::cuda, cuda, p, got);
    CHECK(got.item<double>() == Approx(wanted.item<double>()).epsilon(1e-6));
  }
}

}  // namespace tenon
