// Matrix products.
#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/linear.h"
#include "tenon/autograd/ops/matmul.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

Shape without_matrix(Shape shape) {
  shape.erase(shape.size() - 1);
  shape.erase(shape.size() - 1);
  return shape;
}

Array product(const Array& a, const Array& b) {
  Shape shape = broadcast_shapes("matmul", without_matrix(a.shape), without_matrix(b.shape));
  shape.push_back(a.dim(-2));
  shape.push_back(b.dim(-1));
  Array y(shape);
  const int last = shape.size() - 1;
  for_each_index(shape, [&](const Dims& i) {
    for (int64_t k = 0; k < a.dim(-1); ++k) {
      Dims left = i, right = i;
      left[last] = k;
      right[last - 1] = k;
      y[i] += a.broadcast(left) * b.broadcast(right);
    }
  });
  return y;
}

TEST_CASE("matmul: values, gradients, broadcasting, layouts and dtypes") {
  check_op({.name = "matmul",
            .function = [](const Tensors& in) { return matmul(in[0], in[1]); },
            .reference = [](const Arrays& in) { return product(in[0], in[1]); },
            .inputs = {{values({3, 4}), values({4, 5})},
                       {values({1, 1}), values({1, 1})},
                       {values({1, 7}), values({7, 3})},
                       {values({5, 7}), values({7, 1})},
                       {values({2, 3, 4}), values({4, 2})},
                       {values({2, 3, 4}), values({2, 4, 2})},
                       {values({3, 4}), values({2, 4, 2})},
                       {values({2, 1, 3, 2}), values({3, 2, 2})},
                       {values({1, 3, 2}), values({4, 2, 2})}}});
}

TEST_CASE("matmul: empty dimensions") {
  check_op({.name = "matmul",
            .function = [](const Tensors& in) { return matmul(in[0], in[1]); },
            .reference = [](const Arrays& in) { return product(in[0], in[1]); },
            .inputs = {{values({0, 4}), values({4, 5})},
                       {values({3, 4}), values({4, 0})},
                       {values({3, 0}), values({0, 5})},
                       {values({2, 3, 0}), values({0, 5})},
                       {values({0, 3, 4}), values({4, 2})},
                       {values({0, 3, 4}), values({0, 4, 2})}}});
}

TEST_CASE("matmul: larger sizes, odd and even, in every dtype") {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t n : {17, 64, 129}) {
      std::vector<double> left, right;
      for (int64_t i = 0; i < n * n; ++i) {
        left.push_back(static_cast<double>((i * 37) % 19 - 9) / 16);
        right.push_back(static_cast<double>((i * 53) % 23 - 11) / 16);
      }
      const Tensor a = from_vector(left, {n, n}, {.dtype = dtype});
      const Tensor b = from_vector(right, {n, n}, {.dtype = dtype});
      const Array got(matmul(a, b)), wanted = product(Array(a), Array(b));
      double worst = 0;
      for (size_t i = 0; i < got.values.size(); ++i) {
        worst = std::max(worst, std::abs(got.values[i] - wanted.values[i]) /
                                    std::max(1.0, std::abs(wanted.values[i])));
      }
      INFO(name_of(dtype) << " " << n);
      CHECK(worst <= 4 * tolerance_of(dtype).forward);
    }
  }
}

TEST_CASE("matmul and linear: wrong arguments") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(matmul(x, ones({2, 3})),
                    "[matmul] shapes do not fit: given (2, 3) and (2, 3), wanted (…, M, K) and "
                    "(…, K, N)");
  CHECK_THROWS_WITH(matmul(x, ones({3})), Contains("[matmul] shapes do not fit"));
  CHECK_THROWS_WITH(matmul(ones({2, 2, 3}), ones({3, 3, 3})),
                    Contains("[matmul] shapes do not broadcast: given (2) and (3)"));
  CHECK_THROWS_WITH(matmul(x, ones({3, 2}, {.dtype = DType::f64})),
                    Contains("[matmul] dtypes differ"));
  CHECK_THROWS_WITH(matmul(full({2, 2}, 1, {DType::i64}), full({2, 2}, 1, {DType::i64})),
                    Contains(here("[matmul] wrong dtype: given i64 (2, 2) on cpu")));
  CHECK_THROWS_WITH(linear(x, ones({4, 2})),
                    Contains("[linear] shapes do not fit: given input (2, 3) and weight (4, 2)"));
  CHECK_THROWS_WITH(linear(x, ones({4, 3}), ones({3})),
                    "[linear] wrong bias: given (3), wanted (4)");
  CHECK_THROWS_WITH(linear(x, ones({4, 3}), ones({4}, {.dtype = DType::f64})),
                    Contains("[linear] dtypes differ"));
}

}  // namespace
}  // namespace tenon
