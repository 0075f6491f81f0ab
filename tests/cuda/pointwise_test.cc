// What the tests of kernels/ do not reach: sizes around the edges of groups and blocks, operands
// that are aligned or not, broadcast ones, sharing of kernels between dtypes, and that an element
// does not depend on where it lies.
#include "tenon/kernels/pointwise.h"

#include <catch2/catch.hpp>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"
#include "tenon/tests/support/slots.h"
#include "tenon/tests/support/tolerances.h"

namespace tenon {
namespace {

using namespace kernels;
using testing::kCuda;
using testing::max_error;
using testing::tolerance_of;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr OpParams kParams{0.75, 1.5};
constexpr int64_t kSizes[] = {1, 2, 3, 4, 7, 8, 9, 255, 1023, 1024, 1025, 2048, 4099, 9001};

// Views of three operands and a result over memory of their own; b is between 0.5 and 1.5.
struct Operands {
  Pair a, b, dy, out;
};
Operands views(DType dtype, const Shape& shape, const Strides& strides, int64_t offset,
               int64_t elements) {
  const auto pair = [&](unsigned seed) { return Pair({elements}, dtype, seed); };
  const auto view = [&](const Pair& memory) { return memory.view(shape, strides, offset); };
  Pair divisor = pair(2);
  Unary<Affine>::forward(DeviceType::cpu, divisor.cpu, divisor.cpu, {0.5, 1});
  divisor.cuda = copied_to(divisor.cpu, kCuda);
  return {view(pair(1)), view(divisor), view(pair(3)), view(pair(4))};
}

void check_same(const Pair& result, double factor) {
  const double limit = factor * tolerance_of(result.cpu.dtype()).forward;
  CHECK(max_error(result.cuda.to_vector(), result.cpu.to_vector()) <= limit);
}

template <class Op>
void check_unary(const Operands& x) {
  INFO(Op::name << " " << describe(x.a.cuda) << " strides " << x.a.cuda.strides() << " offset "
                << x.a.cuda.offset());
  Pair out = x.out, dx(x.out.cpu.shape(), x.out.cpu.dtype(), 5);
  Unary<Op>::forward(DeviceType::cpu, x.b.cpu, out.cpu, kParams);
  Unary<Op>::forward(DeviceType::cuda, x.b.cuda, out.cuda, kParams);
  check_same(out, 4);
  for (const bool accumulate : {false, true}) {
    Unary<Op>::backward(DeviceType::cpu, x.b.cpu, x.dy.cpu, dx.cpu, kParams, accumulate);
    Unary<Op>::backward(DeviceType::cuda, x.b.cuda, x.dy.cuda, dx.cuda, kParams, accumulate);
    check_same(dx, 16);
  }
}

template <class Op>
void check_binary(const Operands& x) {
  INFO(Op::name << " " << describe(x.a.cuda) << " strides " << x.a.cuda.strides() << " and "
                << x.b.cuda.strides() << " offset " << x.a.cuda.offset());
  Pair out = x.out, db = Pair(x.out.cpu.shape(), x.out.cpu.dtype(), 6);
  Binary<Op>::forward(DeviceType::cpu, x.a.cpu, x.b.cpu, out.cpu);
  Binary<Op>::forward(DeviceType::cuda, x.a.cuda, x.b.cuda, out.cuda);
  check_same(out, 2);
  Binary<Op>::backward(DeviceType::cpu, x.a.cpu, x.b.cpu, x.dy.cpu, &out.cpu, &db.cpu);
  Binary<Op>::backward(DeviceType::cuda, x.a.cuda, x.b.cuda, x.dy.cuda, &out.cuda, &db.cuda);
  check_same(out, 8);
  check_same(db, 8);
}

void check_others(const Operands& x) {
  INFO(describe(x.a.cuda) << " strides " << x.a.cuda.strides() << " offset " << x.a.cuda.offset());
  Pair out = x.out;
  const Shape shape = out.cpu.shape();
  Pair less(empty(shape, {DType::boolean, kCpu}), empty(shape, {DType::boolean, kCuda}));
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda}) {
    const auto of = [&](const Pair& pair) {
      return device == DeviceType::cpu ? pair.cpu : pair.cuda;
    };
    Tensor chosen = of(less), y = of(out);
    Comparison<Less>::forward(device, of(x.a), of(x.b), chosen);
    where(device, chosen, of(x.a), of(x.b), y);
    accumulate(device, of(x.dy), y, -0.75);
    scale(device, y, 3);
  }
  CHECK(less.cuda.to_vector() == less.cpu.to_vector());
  check_same(out, 4);
}

void check_all(const Operands& x) {
  check_unary<Gelu>(x);
  check_unary<Negate>(x);
  check_binary<Mul>(x);
  check_binary<Sub>(x);
  check_others(x);
}

}  // namespace

TEST_CASE("cuda pointwise: every op") {
  for (const DType dtype : kFloating) {
    const Operands x = views(dtype, {301}, {1}, 0, 301);
    testing::for_each_op(UnaryOps{}, [&]<class Op>() { check_unary<Op>(x); });
    testing::for_each_op(BinaryOps{}, [&]<class Op>() { check_binary<Op>(x); });
  }
}

TEST_CASE("cuda pointwise: sizes and alignments of dense operands") {
  for (const DType dtype : kFloating) {
    for (const int64_t size : kSizes) check_all(views(dtype, {size}, {1}, 0, size));
    for (const int64_t offset : {1, 2, 8}) {
      check_all(views(dtype, {1031}, {1}, offset, 1040));
      Operands mixed = views(dtype, {1031}, {1}, 0, 1040);
      mixed.b = Pair({1040}, dtype, 7).view({1031}, {1}, offset);
      check_all(mixed);
    }
  }
}

TEST_CASE("cuda pointwise: operands of different strides") {
  for (const DType dtype : kFloating) {
    for (const int64_t row : {40, 41, 48}) {
      for (const int64_t offset : {0, 1, 8}) {
        check_all(views(dtype, {3, 10, 32}, {12 * row, row, 1}, offset, 2000));
        check_all(views(dtype, {3, 10, 30}, {12 * row, row, 1}, offset, 2000));
      }
    }
    check_all(views(dtype, {30, 20}, {1, 30}, 0, 600));
    check_all(views(dtype, {2, 3, 5, 7, 2}, {210, 1, 42, 6, 3}, 0, 420));
    check_all(views(dtype, {300}, {2}, 1, 700));
    Operands x = views(dtype, {33, 24}, {24, 1}, 0, 800);
    for (const Strides& strides :
         {Strides{0, 1}, Strides{1, 0}, Strides{0, 0}, Strides{1, 33}, Strides{2, 50}}) {
      x.b = Pair({2000}, dtype, 8).view({33, 24}, strides);
      check_all(x);
      std::swap(x.a, x.b);
      check_all(x);
      std::swap(x.a, x.b);
    }
    const Operands none = views(dtype, {3, 0}, {0, 1}, 0, 1);
    check_all(none);
    const Operands one = views(dtype, {}, {}, 0, 1);
    check_all(one);
  }
}

TEST_CASE("cuda accumulate and comparisons: every pair of dtypes and every dtype") {
  for (const DType from : kFloating) {
    for (const DType to : kFloating) {
      for (const int64_t size : {5, 1030}) {
        const Pair x({size}, from, 1);
        Pair into({size}, to, 2);
        accumulate(DeviceType::cpu, x.cpu, into.cpu, 0.5);
        accumulate(DeviceType::cuda, x.cuda, into.cuda, 0.5);
        check_same(into, 2);
      }
    }
  }
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    std::vector<double> left, right;
    for (int i = 0; i < 1027; ++i) {
      left.push_back(i % 2);
      right.push_back(i / 2 % 2);
    }
    const Tensor a = from_vector(left, {1027}, {dtype, kCpu}),
                 b = from_vector(right, {1027}, {dtype, kCpu});
    Tensor y = empty({1027}, {DType::boolean, kCpu}),
           device_y = empty({1027}, {DType::boolean, kCuda});
    Tensor chosen = empty({1027}, {dtype, kCuda});
    testing::for_each_op(ComparisonOps{}, [&]<class Op>() {
      Comparison<Op>::forward(DeviceType::cpu, a, b, y);
      Comparison<Op>::forward(DeviceType::cuda, copied_to(a, kCuda), copied_to(b, kCuda), device_y);
      INFO(Op::name << " of " << dtype);
      CHECK(device_y.to_vector() == y.to_vector());
    });
    where(DeviceType::cuda, device_y, copied_to(a, kCuda), copied_to(b, kCuda), chosen);
    Tensor wanted = empty({1027}, {dtype, kCpu});
    where(DeviceType::cpu, y, a, b, wanted);
    CHECK(chosen.to_vector() == wanted.to_vector());
    if (is_floating(dtype) || dtype == DType::boolean) continue;
    Binary<Add>::forward(DeviceType::cuda, copied_to(a, kCuda), copied_to(b, kCuda), chosen);
    Binary<Add>::forward(DeviceType::cpu, a, b, wanted);
    CHECK(chosen.to_vector() == wanted.to_vector());
  }
}

TEST_CASE("cuda pointwise: a slice of a result is the result of the slice, to the bit") {
  for (const DType dtype : kFloating) {
    const Pair x({3000}, dtype, 1), dy({3000}, dtype, 2);
    Tensor y = empty({3000}, {dtype, kCuda}), dx = empty({3000}, {dtype, kCuda});
    Unary<Gelu>::forward(DeviceType::cuda, x.cuda, y, {});
    Unary<Gelu>::backward(DeviceType::cuda, x.cuda, dy.cuda, dx, {}, false);
    for (const int64_t begin : {1, 3, 8, 1021}) {
      const Shape shape{1500};
      const Tensor part = x.cuda.alias(begin, shape), grad = dy.cuda.alias(begin, shape);
      Tensor y_part = empty(shape, {dtype, kCuda}), dx_part = empty(shape, {dtype, kCuda});
      Unary<Gelu>::forward(DeviceType::cuda, part, y_part, {});
      Unary<Gelu>::backward(DeviceType::cuda, part, grad, dx_part, {}, false);
      CHECK(y_part.to_vector() == y.alias(begin, shape).to_vector());
      CHECK(dx_part.to_vector() == dx.alias(begin, shape).to_vector());
    }
  }
}

}  // namespace tenon
