// What the tests of kernels/ do not reach: many rows and long ones, packed and barely aligned
// memory, targets out of range.
#include "tenon/kernels/loss.h"

#include <catch2/catch.hpp>

#include "tenon/core/runtime.h"
#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::CrossEntropyParams;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Pair targets_of(int64_t rows, int64_t classes, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows; ++i) {
    values.push_back(i % 5 == 3 ? -100 : static_cast<double>(i * 7 % classes));
  }
  const Tensor list = from_vector(values, {rows}, {dtype, kCpu});
  return {list, copied_to(list, kCuda)};
}

// `out` is where the gradient goes.
void check(const Pair& logits, const Pair& targets, Pair out, const CrossEntropyParams& params) {
  INFO(describe(logits.cuda) << " strides " << logits.cuda.strides() << " offset "
                             << logits.cuda.offset());
  const DType compute = compute_dtype(logits.cpu.dtype());
  Pair loss({}, compute, 1), weight({}, compute, 2), lse({logits.cpu.dim(0)}, compute, 3);
  const Pair dloss({}, compute, 4);
  kernels::cross_entropy(DeviceType::cpu, logits.cpu, targets.cpu, loss.cpu, lse.cpu, weight.cpu,
                         params);
  kernels::cross_entropy(DeviceType::cuda, logits.cuda, targets.cuda, loss.cuda, lse.cuda,
                         weight.cuda, params);
  for (const Pair* pair : {&loss, &weight, &lse}) {
    CHECK(max_error(pair->cuda.to_vector(), pair->cpu.to_vector()) < 2 * tolerance(compute));
  }
  kernels::cross_entropy_backward(DeviceType::cpu, logits.cpu, targets.cpu, lse.cpu, weight.cpu,
                                  dloss.cpu, out.cpu, params);
  kernels::cross_entropy_backward(DeviceType::cuda, logits.cuda, targets.cuda, lse.cuda,
                                  weight.cuda, dloss.cuda, out.cuda, params);
  CHECK(max_error(out.cuda.to_vector(), out.cpu.to_vector()) < tolerance(logits.cpu.dtype()));
}

// `logs` and the gradient's place have one shape; targets without a value to leave out.
void check_nll(const Pair& logs, const Pair& targets, Pair out) {
  const DType compute = compute_dtype(logs.cpu.dtype());
  Pair loss({}, compute, 1);
  const Pair dloss({}, compute, 4);
  kernels::nll_loss(DeviceType::cpu, logs.cpu, targets.cpu, loss.cpu);
  kernels::nll_loss(DeviceType::cuda, logs.cuda, targets.cuda, loss.cuda);
  CHECK(max_error(loss.cuda.to_vector(), loss.cpu.to_vector()) < tolerance(compute));
  kernels::nll_loss_backward(DeviceType::cpu, targets.cpu, dloss.cpu, out.cpu);
  kernels::nll_loss_backward(DeviceType::cuda, targets.cuda, dloss.cuda, out.cuda);
  CHECK(max_error(out.cuda.to_vector(), out.cpu.to_vector()) < tolerance(logs.cpu.dtype()));
}

}  // namespace

TEST_CASE("cuda nll_loss: many rows, strides, a target out of range") {
  for (const DType dtype : kFloating) {
    const Tensor ids = from_vector({1, 0, 6, 3}, {4}, {DType::i32, kCpu});
    const Pair targets{ids, copied_to(ids, kCuda)}, store({200}, dtype, 1), out({200}, dtype, 2);
    check_nll(Pair({4, 7}, dtype, 1), targets, Pair({4, 7}, dtype, 2));
    check_nll(store.view({4, 7}, {2, 9}, 1), targets, out.view({4, 7}, {1, 8}, 3));
    check_nll(Pair({3000, 2}, dtype, 1), targets.view({3000}, {0}), Pair({3000, 2}, dtype, 2));
  }
  Tensor loss = empty({}, {DType::f32, kCuda});
  kernels::nll_loss(DeviceType::cuda, zeros({2, 3}, {DType::f32, kCuda}),
                    copied_to(from_vector({0, 3}, {2}, {DType::i64, kCpu}), kCuda), loss);
  CHECK_THROWS_WITH(synchronize(kCuda),
                    Catch::Contains("[nll_loss] target out of range") && Catch::Contains("row 1"));
}

TEST_CASE("cuda cross_entropy: rows of every length") {
  for (const DType dtype : kFloating) {
    for (const auto& [rows, classes] : {std::pair<int64_t, int64_t>{1, 1},
                                        {3000, 10},
                                        {37, 64},
                                        {9, 1000},
                                        {3, 9001},
                                        {2, 8192}}) {
      for (const DType ids : {DType::i64, DType::i32}) {
        const Pair logits({rows, classes}, dtype, 1), targets = targets_of(rows, classes, ids);
        check(logits, targets, Pair({rows, classes}, dtype, 2), {});
        check(logits, targets, Pair({rows, classes}, dtype, 2), {-100, 0.1, 5});
      }
    }
  }
}

TEST_CASE("cuda cross_entropy: parts of a larger tensor") {
  for (const DType dtype : kFloating) {
    const Pair store({4000}, dtype, 1), out({4000}, dtype, 2),
        targets = targets_of(20, 40, DType::i64);
    for (const int64_t offset : {0, 1, 8}) {
      const Pair logits = store.view({20, 40}, {48, 1}, offset);
      check(logits, targets, out.view({20, 40}, {48, 1}, offset), {});
      check(logits, targets, out.view({20, 40}, {1, 20}, offset), {-100, 0.2, 0});
      check(store.view({20, 40}, {1, 24}, offset), targets.view({20}, {0}),
            out.view({20, 40}, {96, 2}, offset), {});
    }
  }
}

TEST_CASE("cuda cross_entropy: a target out of range is named, the rest goes on") {
  const Pair logits({4, 3}, DType::f32, 1);
  const Tensor wrong = from_data<int64_t>({0, 1, 3, 2}, {4}, Category::activation, kCpu);
  Pair loss({}, DType::f32, 1), weight({}, DType::f32, 2), lse({4}, DType::f32, 3);
  kernels::cross_entropy(DeviceType::cuda, logits.cuda, copied_to(wrong, kCuda), loss.cuda,
                         lse.cuda, weight.cuda, {});
  CHECK_THROWS_WITH(
      synchronize(kCuda),
      Catch::Contains("[cross_entropy] target out of range: given 3 in row 2, wanted 0 to 2"));
  CHECK(weight.cuda.item<double>() == Approx(1.0 / 3));
  check(logits, targets_of(4, 3, DType::i64), Pair({4, 3}, DType::f32, 2), {});
}

TEST_CASE("cuda cross_entropy: no rows") {
  Pair loss({}, DType::f32, 1), weight({}, DType::f32, 2);
  Tensor lse = empty({0}, {DType::f32, kCuda});
  kernels::cross_entropy(DeviceType::cuda, empty({0, 3}, {DType::f32, kCuda}),
                         empty({0}, {DType::i64, kCuda}), loss.cuda, lse, weight.cuda, {});
  CHECK(loss.cuda.item<double>() == 0);
  CHECK(weight.cuda.item<double>() == 0);
}

}  // namespace tenon
