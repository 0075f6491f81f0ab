// What the tests of kernels/ do not reach: large batches, addresses that are barely aligned, many
// calls for one problem, streams and threads, against the CPU's results.
#include "tenon/kernels/matmul.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "tenon/core/stream.h"
#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::Activation;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

void check(const Pair& a, const Pair& b, Pair out, const Pair* bias = nullptr,
           Activation activation = Activation::none, bool accumulate = false) {
  kernels::matmul(DeviceType::cpu, a.cpu, b.cpu, out.cpu,
                  {bias != nullptr ? &bias->cpu : nullptr, activation, accumulate});
  kernels::matmul(DeviceType::cuda, a.cuda, b.cuda, out.cuda,
                  {bias != nullptr ? &bias->cuda : nullptr, activation, accumulate});
  INFO(describe(a.cuda) << " strides " << a.cuda.strides() << " times " << describe(b.cuda)
                        << " strides " << b.cuda.strides() << " into " << describe(out.cuda));
  CHECK(max_error(out.cuda.to_vector(), out.cpu.to_vector()) < 2 * tolerance(out.cpu.dtype()));
}

// out = a b + bias + residual against a sum in f64; the residual has memory of its own.
void check_residual(const Pair& a, const Pair& b, Pair out, const Pair& residual,
                    const Pair* bias = nullptr) {
  const std::vector<double> left = a.cpu.to_vector(), right = b.cpu.to_vector();
  const std::vector<double> biases = bias ? bias->cpu.to_vector() : std::vector<double>();
  std::vector<double> wanted = residual.cpu.to_vector();
  const auto m = static_cast<size_t>(out.cpu.dim(-2)), n = static_cast<size_t>(out.cpu.dim(-1));
  const auto k = static_cast<size_t>(a.cpu.dim(-1));
  for (size_t row = 0; row < wanted.size() / n; ++row) {
    const double* const matrix = right.data() + row / m * k * n;
    for (size_t j = 0; j < n; ++j) {
      double sum = bias ? biases[j] : 0;
      for (size_t i = 0; i < k; ++i) sum += left[row * k + i] * matrix[i * n + j];
      wanted[row * n + j] += sum;
    }
  }
  kernels::matmul(DeviceType::cuda, a.cuda, b.cuda, out.cuda,
                  {.bias = bias ? &bias->cuda : nullptr, .residual = &residual.cuda});
  INFO(describe(a.cuda) << " strides " << a.cuda.strides() << " times " << describe(b.cuda)
                        << " strides " << b.cuda.strides() << " into " << describe(out.cuda));
  CHECK(max_error(out.cuda.to_vector(), wanted) < 2 * tolerance(out.cpu.dtype()));
  CHECK(residual.cuda.to_vector() == residual.cpu.to_vector());
}

DType any_dtype() { return GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16); }

}  // namespace

TEST_CASE("cuda matmul: views at odd offsets") {
  const DType dtype = any_dtype();
  const Pair store(Shape{2000}, dtype, 1);
  const Pair bias_store(Shape{40}, dtype, 2);
  const Pair out_store(Shape{2000}, dtype, 3);
  for (const int64_t offset : {0, 1, 2, 3, 5, 8}) {
    const Pair a = store.view({9, 17}, {19, 1}, offset);
    const Pair b = store.view({17, 13}, {1, 21}, 500 + offset);
    const Pair bias = bias_store.view({13}, {1}, offset);
    check(a, b, out_store.view({9, 13}, {13, 1}, offset), &bias);
    check(a, b, out_store.view({9, 13}, {15, 1}, offset), &bias, Activation::gelu);
    check(a, b, out_store.view({9, 13}, {15, 1}, offset), nullptr, Activation::relu);
    check(a, b, out_store.view({9, 13}, {13, 1}, offset), nullptr, Activation::none, true);
  }
}

TEST_CASE("cuda matmul: a bias in f32 for results of every dtype") {
  const DType dtype = any_dtype();
  const Pair bias(Shape{24}, DType::f32, 4);
  const Pair every_second = bias.view({12}, {2}, 1);
  check(Pair({5, 8}, dtype, 1), Pair({8, 12}, dtype, 2), Pair({5, 12}, compute_dtype(dtype), 3),
        &every_second);
  check(Pair({5, 8}, dtype, 1), Pair({8, 12}, dtype, 2), Pair({5, 12}, dtype, 3), &every_second,
        Activation::relu);
}

TEST_CASE("cuda matmul: batches with several strides") {
  const DType dtype = any_dtype();
  const bool accumulate = GENERATE(false, true);
  // (B, H, T, D) views of (B, T, H, D); 3 and then 80 calls of the library, the latter by copies.
  for (const auto& [batch, heads] : {std::pair<int64_t, int64_t>{3, 4}, {80, 81}}) {
    const Shape shape{batch, heads, 3, 2};
    const Strides strides{3 * heads * 2, 2, heads * 2, 1};
    const Pair q = Pair({batch, 3, heads, 2}, dtype, 1).view(shape, strides);
    const Pair k = Pair({batch, 3, heads, 2}, dtype, 2)
                       .view({batch, heads, 2, 3}, {strides[0], strides[1], 1, strides[2]});
    check(q, k, Pair({batch, heads, 3, 3}, dtype, 3), nullptr, Activation::none, accumulate);
    const Pair scores({batch, heads, 3, 3}, dtype, 4);
    const Pair out = Pair({batch, 3, heads, 2}, dtype, 5).view(shape, strides);
    check(scores, q, out, nullptr, Activation::none, accumulate);
  }
}

TEST_CASE("cuda matmul: a residual is added") {
  const DType dtype = any_dtype();
  const DType result = GENERATE(false, true) ? compute_dtype(dtype) : dtype;
  const Pair bias({13}, dtype, 4), store({2000}, result, 3), residuals({2000}, result, 5);
  const Pair a({2, 9, 17}, dtype, 1), b({2, 17, 13}, dtype, 2);
  for (const Pair* added : {static_cast<const Pair*>(nullptr), &bias}) {
    for (const int64_t offset : {0, 1, 2, 3, 8}) {
      const auto same = [&](const Shape& shape, const Strides& strides) {
        return std::pair{store.view(shape, strides), residuals.view(shape, strides, offset)};
      };
      const auto [dense, dense_residual] = same({2, 9, 13}, {117, 13, 1});
      check_residual(a, b, dense, dense_residual, added);
      const auto [spaced, spaced_residual] = same({2, 9, 13}, {180, 16, 1});
      check_residual(a, b, spaced, spaced_residual, added);
      const auto [transposed, transposed_residual] = same({2, 9, 13}, {117, 1, 9});
      check_residual(a, b, transposed, transposed_residual, added);
    }
    const Pair nothing({2, 9, 0}, dtype, 1), none({2, 0, 13}, dtype, 2);
    check_residual(nothing, none, Pair({2, 9, 13}, result, 3), Pair({2, 9, 13}, result, 5), added);
  }
}

TEST_CASE("cuda matmul: a residual of many matrices with several strides") {
  const DType dtype = any_dtype();
  const Shape shape{65, 66, 3, 2};
  const Strides strides{3 * 66 * 2, 2, 66 * 2, 1};
  const Pair a({65, 66, 3, 3}, dtype, 1), b({65, 66, 3, 2}, dtype, 2);
  check_residual(a, b, Pair(shape, dtype, 3), Pair(shape, dtype, 4));
  check_residual(a, b, Pair(Shape{65, 3, 66, 2}, dtype, 3).view(shape, strides),
                 Pair(Shape{65, 3, 66, 2}, dtype, 4).view(shape, strides));
}

TEST_CASE("cuda matmul: more matrices than one call takes") {
  const int64_t batch = 65535 + 7;
  const Pair a({batch, 1, 2}, DType::f32, 1);
  const Pair b({batch, 2, 1}, DType::f32, 2);
  const Pair bias(Shape{1}, DType::f32, 3);
  check(a, b, Pair({batch, 1, 1}, DType::f32, 4));
  check(a, b, Pair({batch, 1, 1}, DType::f32, 4), &bias);
}

TEST_CASE("cuda matmul: the same problem again on other streams and in other threads") {
  const Pair a({33, 40}, DType::f32, 1);
  const Pair b({40, 21}, DType::f32, 2);
  const Pair bias({21}, DType::f32, 3);
  Tensor wanted = empty({33, 21}, {.device = kCpu});
  kernels::matmul(DeviceType::cpu, a.cpu, b.cpu, wanted, {.bias = &bias.cpu});
  synchronize(kCuda);
  std::vector<std::thread> threads;
  std::vector<double> errors(4);
  for (size_t i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      if (i % 2 == 1) set_current_stream(create_stream(kCuda, StreamPriority::normal));
      for (int times = 0; times < 10; ++times) {
        Tensor out = empty({33, 21}, {.device = kCuda});
        kernels::matmul(DeviceType::cuda, a.cuda, b.cuda, out, {.bias = &bias.cuda});
        synchronize(kCuda);
        errors[i] = std::max(errors[i], max_error(out.to_vector(), wanted.to_vector()));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const double error : errors) CHECK(error < tolerance(DType::f32));
}

TEST_CASE("cuda matmul: f32 keeps 24 bits unless TF32 is allowed") {
  if (std::getenv("TENON_TF32") != nullptr) return;
  const Tensor a = copied_to(from_vector({1 + 0x1p-20}, {1, 1}, {.device = kCpu}), kCuda);
  Tensor out = empty({1, 1}, {.device = kCuda});
  kernels::matmul(DeviceType::cuda, a, a, out, {});
  CHECK(out.item<double>() == 1 + 0x1p-19);
}

}  // namespace tenon
