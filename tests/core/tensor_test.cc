#include "tenon/core/tensor.h"

#include <catch2/catch.hpp>

#include "tenon/core/factory.h"

namespace tenon {
namespace {

using Catch::Contains;
using Values = std::vector<double>;

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  return arange(shape.numel(), {.dtype = dtype}).alias(0, shape);
}

TEST_CASE("tensor: an undefined tensor says so") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.requires_grad());
  CHECK(describe(none) == "undefined tensor");
  CHECK(str(none) == "undefined tensor");
  CHECK_THROWS_WITH(none.shape(), "[tensor] undefined tensor: wanted one with data");
}

TEST_CASE("tensor: what it is made with") {
  const Tensor x = empty({2, 3}, {.dtype = DType::bf16, .category = Category::parameter});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.strides() == Strides{3, 1});
  CHECK(x.ndim() == 2);
  CHECK(x.dim(-1) == 3);
  CHECK(x.numel() == 6);
  CHECK(x.nbytes() == 12);
  CHECK(x.dtype() == DType::bf16);
  CHECK(x.device() == kCpu);
  CHECK(x.storage()->category() == Category::parameter);
  CHECK(describe(x) == "bf16 (2, 3) on cpu");
  CHECK_THROWS_AS(x.dim(2), Error);
  CHECK(reinterpret_cast<uintptr_t>(x.raw_data()) % 64 == 0);
}

TEST_CASE("tensor: a copied handle is the same tensor, a view has its own description") {
  const Tensor x = counting({2, 3});
  const Tensor same = x;
  const Tensor view = x.detach();
  CHECK(same.is_same(x));
  CHECK_FALSE(view.is_same(x));
  CHECK(view.storage() == x.storage());
  view.data<float>()[4] = 40;
  CHECK(x.to_vector() == Values{0, 1, 2, 3, 40, 5});
  view.bump_version();
  CHECK(x.version() == 1);
}

TEST_CASE("tensor: views read the right elements") {
  const Tensor x = counting({3, 4});
  CHECK(x.alias(4, {2, 4}).to_vector() == Values{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(x.alias(4, {2, 4}).alias(1, {3}).to_vector() == Values{5, 6, 7});
  CHECK(x.as_strided({4, 3}, {1, 4}).to_vector() == Values{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(x.as_strided({2, 2}, {0, 1}, 6).to_vector() == Values{6, 7, 6, 7});
  CHECK(x.as_strided({0, 4}, {4, 1}).to_vector().empty());
  CHECK(x.alias(11, {}).item() == 11);
}

TEST_CASE("tensor: views cannot leave their storage") {
  const Tensor x = counting({3, 4});
  CHECK_THROWS_WITH(x.alias(9, {4}),
                    Contains("tensor outside its storage: shape (4), strides (1), offset 9, f32, "
                             "storage of 48 bytes"));
  CHECK_THROWS_AS(x.alias(-1, {2}), Error);
  CHECK_THROWS_AS(x.alias(8, {4}).alias(-9, {2}), Error);
  CHECK_NOTHROW(x.alias(8, {4}).alias(-8, {2}));
  CHECK_THROWS_AS(x.as_strided({3, 2}, {4, 4}), Error);
  CHECK_THROWS_AS(Tensor(x.storage(), DType::f64, {7}), Error);
  CHECK_NOTHROW(Tensor(x.storage(), DType::f64, {6}));
  CHECK_NOTHROW(x.alias(12, {0, 5}));
}

TEST_CASE("tensor: negative and impossible sizes are refused") {
  CHECK_THROWS_WITH(empty({2, -1}), "[empty] negative size: given shape (2, -1)");
  CHECK_THROWS_WITH(full({-2, -3}, 1), "[empty] negative size: given shape (-2, -3)");
  CHECK_THROWS_WITH(arange(-1), Contains("negative size"));
  CHECK_THROWS_WITH(counting({6}).alias(0, {-2, -3}), Contains("negative size"));
  const int64_t huge = int64_t{1} << 40;
  CHECK_THROWS_WITH(empty({huge, huge}), Contains("more bytes than there are addresses"));
  CHECK_THROWS_WITH(empty({huge, 0, huge}), Contains("more bytes than there are addresses"));
}

TEST_CASE("tensor: contiguous and dense") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.is_contiguous());
  const Tensor permuted = x.as_strided({4, 2, 3}, {1, 12, 4});
  CHECK_FALSE(permuted.is_contiguous());
  CHECK(permuted.is_dense());
  CHECK_FALSE(x.as_strided({2, 3, 2}, {12, 4, 1}).is_dense());  // narrowed: gaps
  CHECK_FALSE(x.as_strided({2, 3, 4}, {0, 4, 1}).is_dense());   // repeated
  CHECK_FALSE(x.as_strided({2, 2}, {1, 1}).is_dense());         // overlapping
  CHECK(x.as_strided({1, 3, 1}, {99, 1, 7}).is_contiguous());   // strides of size 1 mean nothing
  CHECK(x.as_strided({3, 1, 2}, {1, 99, 3}).is_dense());
  CHECK(x.as_strided({2, 0}, {5, 5}).is_contiguous());
  CHECK(counting({}).is_contiguous());
}

TEST_CASE("tensor: typed access checks the type") {
  const Tensor x = counting({2}, DType::i32);
  CHECK(x.data<int32_t>()[1] == 1);
  CHECK_THROWS_WITH(x.data<float>(),
                    "[data] wrong element type: asked for f32, the tensor is i32 (2) on cpu");
}

TEST_CASE("tensor: item and to_vector convert every dtype") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool boolean = dtype == DType::boolean;
    const Tensor x = from_vector({0, 1, 5}, {3}, {.dtype = dtype});
    CHECK(x.to_vector() == (boolean ? Values{0, 1, 1} : Values{0, 1, 5}));
    CHECK(x.alias(2, {1}).item<double>() == (boolean ? 1 : 5));
  }
  CHECK(scalar(-2.5).item() == -2.5f);
  CHECK(scalar(1).item<bool>());
  CHECK_THROWS_WITH(counting({2}).item(), "[item] not one element: given shape (2)");
  CHECK_THROWS_AS(counting({0}).item(), Error);
}

TEST_CASE("tensor: item keeps integers that no double holds") {
  const int64_t odd = (int64_t{1} << 53) + 1;
  CHECK(from_data<int64_t>({odd}, {}).item<int64_t>() == odd);
}

TEST_CASE("tensor: the factories") {
  CHECK(zeros({2, 2}).to_vector() == Values{0, 0, 0, 0});
  CHECK(ones({2}, {.dtype = DType::f16}).to_vector() == Values{1, 1});
  CHECK(full({2}, 3, {.dtype = DType::i64}).to_vector() == Values{3, 3});
  CHECK(arange(3).dtype() == DType::i64);
  CHECK(zeros({0, 3}).numel() == 0);
  CHECK(from_data<uint8_t>({1, 2}, {2}).dtype() == DType::u8);
  CHECK_THROWS_WITH(from_vector({1, 2}, {3}),
                    "[from_data] wrong number of values: given 2, wanted 3 for shape (3)");
  const Tensor permuted = counting({2, 3}).as_strided({3, 2}, {1, 3});
  CHECK(empty_like(permuted).strides() == Strides{1, 3});
  const Tensor gaps = counting({2, 3}).as_strided({2, 2}, {3, 1});
  CHECK(empty_like(gaps).strides() == Strides{2, 1});
  CHECK(empty_like(gaps, Category::gradient).storage()->category() == Category::gradient);
}

TEST_CASE("tensor: set_data re-points every handle") {
  const Tensor x = counting({2, 3});
  Tensor handle = x;
  handle.set_data(counting({4}, DType::f64));
  CHECK(x.shape() == Shape{4});
  CHECK(x.dtype() == DType::f64);
  CHECK(x.is_same(handle));
}

TEST_CASE("tensor: printing") {
  CHECK(str(scalar(1.5)) == "1.5 f32 () on cpu");
  CHECK(str(counting({2, 2}, DType::i64)) == "[[0, 1],\n [2, 3]] i64 (2, 2) on cpu");
  CHECK(str(zeros({0, 2})) == "[] f32 (0, 2) on cpu");
  CHECK(str(counting({3}).as_strided({2}, {2})) == "[0, 2] f32 (2) on cpu");
  CHECK(str(counting({2000})) == "[0, 1, 2, …, 1997, 1998, 1999] f32 (2000) on cpu");
  CHECK_THAT(str(counting({1, 2000})), Contains("[[0, 1, 2, …, 1997"));
}

TEST_CASE("tensor: mismatches name op and both sides") {
  const Tensor a = counting({2, 3}), b = counting({3, 2}, DType::f64);
  CHECK_THROWS_WITH(check_same_shape("add_", a, b),
                    "[add_] shapes differ: given (2, 3) and (3, 2)");
  CHECK_THROWS_WITH(check_same_dtype("add", a, b),
                    Contains("[add] dtypes differ: given f32 (2, 3) on cpu and f64 (3, 2) on cpu"));
  CHECK_NOTHROW(check_same_device("add", a, b));
  CHECK_THROWS_WITH(a.backward(), Contains("[backward] nothing to differentiate"));
  CHECK_FALSE(a.grad().defined());
}

}  // namespace
}  // namespace tenon
