#include "tenon/kernels/pointwise.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/tests/support/array.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/layouts.h"
#include "tenon/tests/support/random_tensor.h"
#include "tenon/tests/support/slots.h"
#include "tenon/tests/support/tolerances.h"

namespace tenon {
namespace {

using namespace kernels;
using testing::Array;
using testing::kLayouts;
using testing::Layout;
using testing::make_tensor;
using testing::random_tensor;
using testing::tolerance_of;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr OpParams kParams{0.75, 1.5};

// Values where every op and its derivative are defined: (0.1, 2.1).
Tensor positive_tensor(const Shape& shape, DType dtype, unsigned seed,
                       Layout layout = Layout::contiguous) {
  std::vector<double> values = random_tensor(shape, DType::f64, seed).to_vector();
  for (double& value : values) value = value + 1.1;
  return make_tensor(values, shape, dtype, layout);
}

// The largest |got - wanted| / max(1, |wanted|).
double distance(const std::vector<double>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - wanted[i]) / std::max(1.0, std::abs(wanted[i]));
    worst = error <= worst ? worst : error;
  }
  return worst;
}

// An output of the given layout; `repeated` is none for outputs.
Tensor output_like(const Tensor& x, DType dtype, Layout layout) {
  const std::vector<double> values(static_cast<size_t>(x.numel()), 0.5);
  return make_tensor(values, x.shape(), dtype,
                     layout == Layout::repeated ? Layout::contiguous : layout);
}

template <class Op>
void check_unary(const Shape& shape, DType dtype, Layout in_layout, Layout out_layout) {
  const Tensor x = positive_tensor(shape, dtype, 1, in_layout);
  const Tensor dy = positive_tensor(shape, dtype, 2, in_layout);
  Tensor y = output_like(x, dtype, out_layout);
  Tensor dx = output_like(x, dtype, out_layout);
  const std::vector<double> in = x.to_vector(), grad = dy.to_vector(), old = dx.to_vector();
  const ParamsOf<double> p{kParams.a, kParams.b};
  std::vector<double> wanted, slope, sum;
  for (size_t i = 0; i < in.size(); ++i) {
    wanted.push_back(Op::template forward<double>(in[i], p));
    slope.push_back(Op::template backward<double>(in[i], grad[i], p));
    sum.push_back(old[i] + slope.back());
  }
  INFO(Op::name << " " << describe(x) << " " << name_of(in_layout) << " " << name_of(out_layout));
  Unary<Op>::forward(testing::device_type(), x, y, kParams);
  // Saves::output is a name: backward is a function of what it is given.
  Unary<Op>::backward(testing::device_type(), x, dy, dx, kParams, true);
  Tensor fresh = output_like(x, dtype, out_layout);
  Unary<Op>::backward(testing::device_type(), x, dy, fresh, kParams, false);
  const double limit = 4 * tolerance_of(dtype).forward;
  CHECK(distance(y.to_vector(), wanted) < limit);
  CHECK(distance(dx.to_vector(), sum) < limit);
  CHECK(distance(fresh.to_vector(), slope) < limit);
}

template <class Op>
void check_binary(const Shape& shape, DType dtype, Layout a_layout, Layout b_layout) {
  const Tensor a = positive_tensor(shape, dtype, 1, a_layout);
  const Tensor b = positive_tensor(shape, dtype, 2, b_layout);
  const Tensor dy = positive_tensor(shape, dtype, 3);
  Tensor y = output_like(a, dtype, a_layout), da = output_like(a, dtype, b_layout),
         db = output_like(a, dtype, Layout::contiguous);
  const std::vector<double> left = a.to_vector(), right = b.to_vector(), grad = dy.to_vector();
  std::vector<double> wanted, wanted_a, wanted_b;
  for (size_t i = 0; i < left.size(); ++i) {
    wanted.push_back(Op::template forward<double>(left[i], right[i]));
    wanted_a.push_back(Op::template backward_a<double>(left[i], right[i], grad[i]));
    wanted_b.push_back(Op::template backward_b<double>(left[i], right[i], grad[i]));
  }
  INFO(Op::name << " " << describe(a) << " " << name_of(a_layout) << " " << name_of(b_layout));
  Binary<Op>::forward(testing::device_type(), a, b, y);
  Binary<Op>::backward(testing::device_type(), a, b, dy, &da, &db);
  Binary<Op>::backward(testing::device_type(), a, b, dy, nullptr, nullptr);
  const double limit = 4 * tolerance_of(dtype).forward;
  CHECK(distance(y.to_vector(), wanted) < limit);
  // Derivatives of a division by small numbers are large, errors grow with them.
  CHECK(distance(da.to_vector(), wanted_a) < 8 * limit);
  CHECK(distance(db.to_vector(), wanted_b) < 8 * limit);
}

}  // namespace

TEST_CASE("unary kernels agree with the scalar functions in every layout and dtype") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{2, 3, 5, 7}}) {
    for (const DType dtype : kFloating) {
      for (const Layout layout : kLayouts) {
        if (!testing::applies(layout, shape)) continue;
        testing::for_each_op(UnaryOps{}, [&]<class Op>() {
          check_unary<Op>(shape, dtype, layout, Layout::contiguous);
          check_unary<Op>(shape, dtype, Layout::contiguous, layout);
        });
      }
    }
  }
}

TEST_CASE("unary kernels agree with the scalar functions on rows of every kind") {
  for (const Shape& shape : {Shape{5, 130}, Shape{3, 1025}, Shape{300, 10}, Shape{20011}}) {
    for (const Layout layout : kLayouts) {
      if (!testing::applies(layout, shape)) continue;
      check_unary<Tanh>(shape, DType::f32, layout, Layout::contiguous);
      check_unary<Gelu>(shape, DType::bf16, layout, layout);
    }
  }
}

TEST_CASE("binary kernels agree with the scalar functions in every layout and dtype") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{2, 3, 5, 7}, Shape{5, 131}}) {
    for (const DType dtype : kFloating) {
      for (const Layout layout : kLayouts) {
        if (!testing::applies(layout, shape)) continue;
        testing::for_each_op(BinaryOps{}, [&]<class Op>() {
          check_binary<Op>(shape, dtype, layout, Layout::contiguous);
          check_binary<Op>(shape, dtype, Layout::contiguous, layout);
          check_binary<Op>(shape, dtype, layout, layout);
        });
      }
    }
  }
}

TEST_CASE("a row or a column broadcast over a matrix is added to every row or column") {
  for (const DType dtype : kFloating) {
    for (const Shape& shape : {Shape{7, 10}, Shape{3, 200}, Shape{130, 3}}) {
      const Tensor x = random_tensor(shape, dtype, 1);
      const Tensor row = random_tensor({shape[1]}, dtype, 2).as_strided(shape, {0, 1});
      const Tensor column = random_tensor({shape[0]}, dtype, 3).as_strided(shape, {1, 0});
      for (const Tensor& other : {row, column}) {
        Tensor y = empty(shape, {.dtype = dtype});
        Binary<Add>::forward(testing::device_type(), x, other, y);
        const Array wanted = testing::zip(Array(x), Array(other), std::plus<double>());
        CHECK(distance(y.to_vector(), wanted.values) < 2 * tolerance_of(dtype).forward);
      }
    }
  }
}

TEST_CASE("integers are added exactly, and their division is refused") {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const Tensor a = from_vector({7, 5, 9}, {3}, {.dtype = dtype});
    const Tensor b = from_vector({2, 5, 3}, {3}, {.dtype = dtype});
    Tensor y = empty({3}, {.dtype = dtype});
    Binary<Add>::forward(testing::device_type(), a, b, y);
    CHECK(y.to_vector() == std::vector<double>{9, 10, 12});
    Binary<Sub>::forward(testing::device_type(), a, b, y);
    CHECK(y.to_vector() == std::vector<double>{5, 0, 6});
    Binary<Mul>::forward(testing::device_type(), a, b, y);
    CHECK(y.to_vector() == std::vector<double>{14, 25, 27});
    Binary<Maximum>::forward(testing::device_type(), a, b, y);
    CHECK(y.to_vector() == std::vector<double>{7, 5, 9});
    CHECK_THROWS_WITH(Binary<Div>::forward(testing::device_type(), a, b, y),
                      Catch::Contains("[div] unsupported dtype"));
  }
  const Tensor large = from_data<int64_t>({int64_t{1} << 60}, {1});
  Tensor sum = empty({1}, {.dtype = DType::i64});
  Binary<Add>::forward(testing::device_type(), large, from_data<int64_t>({1}, {1}), sum);
  CHECK(sum.item<int64_t>() == (int64_t{1} << 60) + 1);
}

TEST_CASE("comparisons take every dtype") {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    const Tensor a = from_vector({0, 1, 1, 0}, {4}, {.dtype = dtype});
    const Tensor b = from_vector({0, 0, 1, 1}, {4}, {.dtype = dtype});
    Tensor y = empty({4}, {.dtype = DType::boolean});
    testing::for_each_op(ComparisonOps{}, [&]<class Op>() {
      INFO(Op::name << " of " << dtype);
      Comparison<Op>::forward(testing::device_type(), a, b, y);
      std::vector<double> wanted;
      for (size_t i = 0; i < 4; ++i) {
        wanted.push_back(Op::template forward<double>(a.to_vector()[i], b.to_vector()[i]));
      }
      CHECK(y.to_vector() == wanted);
    });
  }
}

TEST_CASE("where, accumulate and scale work in every layout and dtype") {
  const Shape shape{3, 4, 5, 6};
  for (const DType dtype : kFloating) {
    for (const Layout layout : kLayouts) {
      const Tensor a = positive_tensor(shape, dtype, 1, layout);
      const Tensor b = positive_tensor(shape, dtype, 2);
      Tensor condition = empty(shape, {.dtype = DType::boolean});
      const Tensor limit = full(shape, 1, {.dtype = dtype});
      Comparison<Less>::forward(testing::device_type(), b, limit, condition);
      Tensor y = output_like(a, dtype, layout);
      where(testing::device_type(), condition, a, b, y);
      const std::vector<double> left = a.to_vector(), right = b.to_vector();
      std::vector<double> chosen, sum, scaled;
      for (size_t i = 0; i < left.size(); ++i) {
        chosen.push_back(right[i] < 1 ? left[i] : right[i]);
        sum.push_back(chosen.back() - 0.25 * left[i]);
        scaled.push_back(sum.back() * 3);
      }
      CHECK(y.to_vector() == chosen);
      accumulate(testing::device_type(), a, y, -0.25);
      CHECK(distance(y.to_vector(), sum) < 2 * tolerance_of(dtype).forward);
      scale(testing::device_type(), y, 3);
      CHECK(distance(y.to_vector(), scaled) < 4 * tolerance_of(dtype).forward);
    }
  }
}

TEST_CASE("accumulate takes addends of another dtype") {
  for (const DType from : kFloating) {
    for (const DType to : kFloating) {
      const Tensor x = from_vector({1, 2, 4}, {3}, {.dtype = from});
      Tensor into = from_vector({0.5, 0.25, 8}, {3}, {.dtype = to});
      accumulate(testing::device_type(), x, into, 2);
      CHECK(into.to_vector() == std::vector<double>{2.5, 4.25, 16});
    }
  }
}

}  // namespace tenon
