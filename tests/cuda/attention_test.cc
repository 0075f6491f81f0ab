// Attention on the GPU against the CPU's: tiles that are not full, masks of every shape, groups of
// heads, heads of every width (with tensor cores and without), parts of a packed tensor.
#include "tenon/kernels/attention.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::AttentionParams;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

struct Sizes {
  int64_t batch, heads, groups, queries, keys, width;
};

struct Operands {
  Pair q, k, v, out;
};

// Each in memory of its own.
Operands dense(const Sizes& s, DType dtype, unsigned seed) {
  const Shape rows{s.batch, s.heads, s.queries, s.width}, keys{s.batch, s.groups, s.keys, s.width};
  return {Pair(rows, dtype, seed), Pair(keys, dtype, seed + 1), Pair(keys, dtype, seed + 2),
          Pair(rows, dtype, seed + 3)};
}

// Views of q, k and v in one (B, T, (H + 2 G) D), and of out in (B, T, H D).
Operands packed(const Sizes& s, DType dtype, unsigned seed, int64_t offset) {
  const int64_t token = (s.heads + 2 * s.groups) * s.width;
  const Pair store({s.batch * s.keys * token + offset}, dtype, seed);
  const auto part = [&](int64_t first, int64_t heads, int64_t rows) {
    return store.view({s.batch, heads, rows, s.width}, {s.keys * token, s.width, token, 1},
                      offset + first * s.width);
  };
  const int64_t own = s.heads * s.width;
  const Pair out =
      Pair({s.batch * s.queries * own}, dtype, seed + 1)
          .view({s.batch, s.heads, s.queries, s.width}, {s.queries * own, s.width, own, 1});
  return {part(0, s.heads, s.queries), part(s.heads, s.groups, s.keys),
          part(s.heads + s.groups, s.groups, s.keys), out};
}

void check_near(const char* what, const Tensor& got, const Tensor& wanted, double limit) {
  INFO(what);
  CHECK(max_error(got.to_vector(), wanted.to_vector()) < limit);
}

void check(const Sizes& s, const Operands& given, Operands grads, const AttentionParams& params,
           double slack = 1) {
  const DType dtype = given.q.cpu.dtype(), compute = compute_dtype(dtype);
  INFO(describe(given.q.cuda) << " strides " << given.q.cuda.strides() << " and "
                              << describe(given.k.cuda) << (params.causal ? " causal" : ""));
  Pair out = given.out, log_sums({s.batch, s.heads, s.queries}, compute, 9);
  kernels::attention(DeviceType::cpu, given.q.cpu, given.k.cpu, given.v.cpu, out.cpu, log_sums.cpu,
                     params);
  kernels::attention(DeviceType::cuda, given.q.cuda, given.k.cuda, given.v.cuda, out.cuda,
                     log_sums.cuda, params);
  check_near("out", out.cuda, out.cpu, slack * 2 * tolerance(dtype));
  check_near("log_sum_exp", log_sums.cuda, log_sums.cpu, slack * 2 * tolerance(compute));
  // grads.out: the gradient of out.
  kernels::attention_backward(DeviceType::cpu, given.q.cpu, given.k.cpu, given.v.cpu, out.cpu,
                              log_sums.cpu, grads.out.cpu, grads.q.cpu, grads.k.cpu, grads.v.cpu,
                              params);
  kernels::attention_backward(DeviceType::cuda, given.q.cuda, given.k.cuda, given.v.cuda, out.cuda,
                              log_sums.cuda, grads.out.cuda, grads.q.cuda, grads.k.cuda,
                              grads.v.cuda, params);
  const double limit = slack * 4 * tolerance(dtype);
  check_near("dq", grads.q.cuda, grads.q.cpu, limit);
  check_near("dk", grads.k.cuda, grads.k.cpu, limit);
  check_near("dv", grads.v.cuda, grads.v.cpu, limit);
}

void check_dense(const Sizes& s, DType dtype, bool causal) {
  const AttentionParams params{causal, 1 / std::sqrt(static_cast<double>(s.width))};
  check(s, dense(s, dtype, 1), dense(s, dtype, 11), params);
}

}  // namespace

TEST_CASE("cuda attention: tiles that are not full, with and without a mask") {
  for (const DType dtype : kFloating) {
    for (const bool causal : {false, true}) {
      check_dense({2, 2, 2, 1, 1, 8}, dtype, causal);
      check_dense({1, 2, 1, 1, 77, 16}, dtype, causal);
      check_dense({2, 4, 2, 67, 67, 20}, dtype, causal);
      if (dtype == DType::f64 || dtype == DType::f16) continue;
      check_dense({1, 1, 1, 64, 64, 64}, dtype, causal);
      check_dense({1, 3, 1, 33, 130, 32}, dtype, causal);
      check_dense({1, 2, 2, 5, 140, 7}, dtype, causal);
    }
  }
}

TEST_CASE("cuda attention: heads of every width") {
  for (const DType dtype : kFloating) {
    for (const int64_t width : {33, 96, 128, 256}) {
      check_dense({1, 2, 1, 18, 67, width}, dtype, true);
    }
  }
}

TEST_CASE("cuda attention: parts of a packed tensor") {
  for (const DType dtype : kFloating) {
    for (const int64_t offset : {0, 1}) {
      for (const int64_t width : {16, 40}) {
        const Sizes s{2, 2, 1, 66, 66, width};
        check(s, packed(s, dtype, 1, offset), packed(s, dtype, 11, offset), {true, 0.3});
      }
    }
    const Sizes fewer{1, 2, 2, 30, 70, 16};
    check(fewer, packed(fewer, dtype, 1, 8), packed(fewer, dtype, 11, 8), {true, -0.3});
  }
}

TEST_CASE("cuda attention: large scores") {
  for (const DType dtype : kFloating) {
    const Sizes s{1, 1, 1, 70, 70, 16};
    // What scores of a few hundred lose is lost by each weight.
    const double slack = size_of(dtype) > 2 ? 64 : 2;
    check(s, dense(s, dtype, 1), dense(s, dtype, 11), {true, 50}, slack);
  }
}

TEST_CASE("cuda attention: the same gradients in every run") {
  const Sizes s{1, 2, 1, 70, 70, 16};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<double> results[2];
    for (auto& result : results) {
      const Operands given = dense(s, dtype, 1);
      Operands grads = dense(s, dtype, 11);
      Tensor out = given.out.cuda, sums = empty({1, 2, 70}, {DType::f32, kCuda});
      kernels::attention(DeviceType::cuda, given.q.cuda, given.k.cuda, given.v.cuda, out, sums, {});
      kernels::attention_backward(DeviceType::cuda, given.q.cuda, given.k.cuda, given.v.cuda, out,
                                  sums, grads.out.cuda, grads.q.cuda, grads.k.cuda, grads.v.cuda,
                                  {});
      for (const Pair* pair : {&grads.q, &grads.k, &grads.v}) {
        for (const double value : pair->cuda.to_vector()) result.push_back(value);
      }
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("cuda attention: nothing to attend to") {
  for (const Sizes& s :
       {Sizes{0, 2, 1, 3, 3, 8}, Sizes{2, 0, 0, 3, 3, 8}, Sizes{2, 2, 1, 0, 0, 8}}) {
    check(s, dense(s, DType::f32, 1), dense(s, DType::f32, 11), {});
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Sizes s{2, 2, 1, 0, 5, 8};  // no query: gradients of keys and values are zero
    check(s, dense(s, dtype, 1), dense(s, dtype, 11), {});
  }
}

TEST_CASE("cuda attention: heads that are too wide") {
  const Sizes s{1, 1, 1, 2, 2, 257};
  const Operands given = dense(s, DType::bf16, 1);
  Tensor out = given.out.cuda, sums = empty({1, 1, 2}, {DType::f32, kCuda});
  CHECK_THROWS_WITH(
      kernels::attention(DeviceType::cuda, given.q.cuda, given.k.cuda, given.v.cuda, out, sums, {}),
      "[attention] unsupported width of a head: given 257, wanted at most 256");
}

}  // namespace tenon
