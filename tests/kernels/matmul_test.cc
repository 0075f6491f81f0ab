#include "tenon/kernels/matmul.h"
#include "tenon/tests/support/device.h"

#include <catch2/catch.hpp>
#include <thread>

#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::Activation;
using kernels::MatmulEpilogue;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

double activate(double x, Activation activation) {
  if (activation == Activation::relu) return std::max(x, 0.0);
  if (activation == Activation::gelu) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  return x;
}

// Naive product in f64 of tensors whose leading dimensions agree.
std::vector<double> reference(const Tensor& a, const Tensor& b, const Tensor& out,
                              const MatmulEpilogue& epilogue) {
  const std::vector<double> left = a.to_vector();
  const std::vector<double> right = b.to_vector();
  const std::vector<double> bias =
      epilogue.bias != nullptr ? epilogue.bias->to_vector() : std::vector<double>();
  std::vector<double> result = out.to_vector();
  const auto m = static_cast<size_t>(out.dim(-2));
  const auto n = static_cast<size_t>(out.dim(-1));
  const auto k = static_cast<size_t>(a.dim(-1));
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t batch = i / (m * n);
    const size_t row = i / n % m;
    const size_t column = i % n;
    double sum = epilogue.accumulate ? result[i] : 0;
    for (size_t l = 0; l < k; ++l) {
      sum += left[(batch * m + row) * k + l] * right[(batch * k + l) * n + column];
    }
    if (!bias.empty()) sum += bias[column];
    result[i] = activate(sum, epilogue.activation);
  }
  return result;
}

void check(const Tensor& a, const Tensor& b, Tensor out, const MatmulEpilogue& epilogue = {}) {
  const std::vector<double> wanted = reference(a, b, out, epilogue);
  kernels::matmul(testing::device_type(), a, b, out, epilogue);
  INFO(describe(a) << " strides " << a.strides() << " times " << describe(b) << " strides "
                   << b.strides() << " into " << describe(out));
  CHECK(max_error(out.to_vector(), wanted) < tolerance(out.dtype()));
}

// The last two dimensions exchanged, as a view.
Tensor transposed(const Tensor& tensor) {
  Shape shape = tensor.shape();
  Strides strides = tensor.strides();
  const int last = shape.size() - 1;
  std::swap(shape[last], shape[last - 1]);
  std::swap(strides[last], strides[last - 1]);
  return tensor.as_strided(shape, strides);
}

DType any_dtype() { return GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16); }

}  // namespace

TEST_CASE("matmul agrees with the naive product for all sizes and transposes") {
  const DType dtype = any_dtype();
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  for (const auto [m, n, k] : {std::array{1, 1, 1},
                               {1, 5, 7},
                               {5, 1, 7},
                               {5, 7, 1},
                               {3, 5, 7},
                               {16, 16, 16},
                               {17, 33, 65},
                               {128, 10, 100},
                               {10, 100, 128},
                               {130, 70, 40},
                               {0, 3, 4},
                               {3, 0, 4},
                               {3, 4, 0}}) {
    const Tensor a =
        transpose_a ? transposed(random_tensor({k, m}, dtype, 1)) : random_tensor({m, k}, dtype, 1);
    const Tensor b =
        transpose_b ? transposed(random_tensor({n, k}, dtype, 2)) : random_tensor({k, n}, dtype, 2);
    check(a, b, random_tensor({m, n}, dtype, 3));
  }
}

TEST_CASE("matmul adds a bias and applies an activation") {
  const DType dtype = any_dtype();
  const Activation activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  for (const auto [m, n, k] :
       {std::array{1, 1, 1}, {7, 33, 19}, {64, 64, 64}, {128, 10, 100}, {5, 6, 0}}) {
    const Tensor bias = random_tensor({n}, dtype, 4);
    check(random_tensor({m, k}, dtype, 1), transposed(random_tensor({n, k}, dtype, 2)),
          random_tensor({m, n}, dtype, 3), {.bias = &bias, .activation = activation});
  }
}

TEST_CASE("matmul takes a bias of another dtype or stride") {
  const Tensor bias = random_tensor({12}, DType::f32, 4);
  const Tensor every_second = bias.as_strided({6}, {2});
  const Tensor wide = random_tensor({6}, DType::f64, 4);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Tensor* given : {&every_second, &wide}) {
      check(random_tensor({5, 8}, dtype, 1), random_tensor({8, 6}, dtype, 2),
            random_tensor({5, 6}, dtype, 3), {.bias = given});
    }
  }
}

TEST_CASE("matmul adds to what the result holds") {
  const DType dtype = any_dtype();
  for (const auto [m, n, k] : {std::array{1, 1, 1}, {7, 33, 19}, {64, 64, 64}, {5, 6, 0}}) {
    check(transposed(random_tensor({k, m}, dtype, 1)), random_tensor({k, n}, dtype, 2),
          random_tensor({m, n}, dtype, 3), {.accumulate = true});
  }
}

TEST_CASE("matmul of 16-bit inputs writes and adds to f32") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const bool accumulate = GENERATE(false, true);
  const Tensor bias = random_tensor({21}, DType::f32, 4);
  const MatmulEpilogue epilogue{.bias = accumulate ? nullptr : &bias, .accumulate = accumulate};
  check(random_tensor({17, 40}, dtype, 1), random_tensor({40, 21}, dtype, 2),
        random_tensor({17, 21}, DType::f32, 3), epilogue);
}

TEST_CASE("matmul broadcasts batches by strides of 0") {
  const DType dtype = any_dtype();
  const Tensor a = random_tensor({2, 3, 4, 5}, dtype, 1);
  const Tensor b = random_tensor({2, 3, 5, 6}, dtype, 2);
  const Tensor out = random_tensor({2, 3, 4, 6}, dtype, 3);
  const Tensor bias = random_tensor({6}, dtype, 4);
  const Shape left{2, 3, 4, 5};
  const Shape right{2, 3, 5, 6};
  check(a, b, out, {.bias = &bias, .activation = Activation::gelu});
  check(a, b.as_strided(right, {0, 0, 6, 1}), out, {.bias = &bias});
  check(a, b.as_strided(right, {0, 30, 6, 1}), out, {.accumulate = true});
  check(a, b.as_strided(right, {30, 0, 6, 1}), out);
  check(a.as_strided(left, {0, 20, 5, 1}), b, out);
  check(a.as_strided(left, {20, 0, 5, 1}), b.as_strided(right, {0, 30, 6, 1}), out);
  check(a.as_strided(left, {0, 0, 5, 1}), b, out);
  check(a.as_strided(left, {0, 20, 5, 1}), b.as_strided(right, {0, 30, 6, 1}), out);
  check(a.as_strided(left, {0, 0, 5, 1}), b.as_strided(right, {0, 0, 6, 1}), out);
  check(a.as_strided(left, {20, 0, 1, 4}), b.as_strided(right, {0, 30, 1, 5}), out);
}

TEST_CASE("matmul of attention heads reads and writes permuted views") {
  const DType dtype = any_dtype();
  constexpr int64_t kBatch = 2, kTime = 9, kHeads = 3, kWidth = 8;
  const Shape heads{kBatch, kHeads, kTime, kWidth};
  const Strides head_strides{kTime * kHeads * kWidth, kWidth, kHeads * kWidth, 1};
  const Tensor q = random_tensor({kBatch, kTime, kHeads, kWidth}, dtype, 1);
  const Tensor k = random_tensor({kBatch, kTime, kHeads, kWidth}, dtype, 2);
  const Tensor scores = random_tensor({kBatch, kHeads, kTime, kTime}, dtype, 3);
  const Tensor q_heads = q.as_strided(heads, head_strides);
  const Tensor k_heads = k.as_strided(heads, head_strides);
  check(q_heads, transposed(k_heads), scores);
  check(scores, k_heads, q_heads);
  check(transposed(scores), k_heads, q_heads, {.accumulate = true});
}

TEST_CASE("matmul joins batches of rows whatever the batch") {
  const DType dtype = any_dtype();
  const Tensor weight = random_tensor({6, 5}, dtype, 2);
  const int64_t batch = GENERATE(0, 1, 4);
  const int64_t rows = GENERATE(1, 3);
  check(random_tensor({batch, rows, 5}, dtype, 1), weight.as_strided({batch, 5, 6}, {0, 1, 5}),
        random_tensor({batch, rows, 6}, dtype, 3));
  // The last of every group of rows: the batch stride is longer than the rows used.
  const Tensor tall = random_tensor({batch, 7, 5}, dtype, 1);
  check(tall.as_strided({batch, rows, 5}, {35, 5, 1}, batch > 0 ? 5 : 0),
        weight.as_strided({batch, 5, 6}, {0, 1, 5}), random_tensor({batch, rows, 6}, dtype, 3));
}

TEST_CASE("matmul copies operands and results without a unit stride") {
  const DType dtype = any_dtype();
  const bool accumulate = GENERATE(false, true);
  const MatmulEpilogue epilogue{.accumulate = accumulate};
  const Tensor sparse = random_tensor({8, 20}, dtype, 1).as_strided({8, 10}, {20, 2});
  const Tensor repeated = random_tensor({10}, dtype, 2).as_strided({10, 6}, {1, 0});
  const Tensor one_row = random_tensor({6}, dtype, 2).as_strided({10, 6}, {0, 1});
  const Tensor dense = random_tensor({10, 6}, dtype, 2);
  check(sparse, dense, random_tensor({8, 6}, dtype, 3), epilogue);
  check(sparse, repeated, random_tensor({8, 6}, dtype, 3), epilogue);
  check(sparse, one_row, random_tensor({8, 6}, dtype, 3), epilogue);
  check(sparse, dense, transposed(random_tensor({6, 8}, dtype, 3)), epilogue);
  check(sparse, dense, random_tensor({8, 12}, dtype, 3).as_strided({8, 6}, {12, 2}), epilogue);
  check(sparse, dense, random_tensor({8, 9}, dtype, 3).as_strided({8, 6}, {9, 1}), epilogue);
}

TEST_CASE("matmul with an activation keeps NaN visible") {
  const Activation activation = GENERATE(Activation::relu, Activation::gelu);
  const Tensor a = from_data<float>({NAN, 1, 2, 3}, {2, 2});
  const Tensor b = from_data<float>({1, 2, 3, 4}, {2, 2});
  const Tensor bias = zeros({2});
  Tensor out = empty({2, 2});
  kernels::matmul(testing::device_type(), a, b, out, {.bias = &bias, .activation = activation});
  CHECK(std::isnan(out.to_vector()[0]));
  CHECK(out.to_vector()[2] == Approx(11));
}

TEST_CASE("matmul refuses dtypes it cannot compute in") {
  Tensor out = empty({2, 2}, {.dtype = DType::i64});
  const Tensor integers = zeros({2, 2}, {.dtype = DType::i64});
  CHECK_THROWS_WITH(kernels::matmul(testing::device_type(), integers, integers, out, {}),
                    Catch::Contains("[matmul] unsupported dtype: given i64"));
  const Tensor floats = zeros({2, 2});
  CHECK_THROWS_WITH(kernels::matmul(testing::device_type(), floats, floats, out, {}),
                    Catch::Contains("unsupported dtype of the result: given i64"));
}

TEST_CASE("matmul gives the same bits on every thread") {
  const Tensor a = random_tensor({65, 130}, DType::f32, 1);
  const Tensor b = random_tensor({130, 70}, DType::f32, 2);
  std::vector<std::vector<double>> results(3);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        Tensor out = empty({65, 70});
        kernels::matmul(testing::device_type(), a, b, out, {});
        result = out.to_vector();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

}  // namespace tenon
