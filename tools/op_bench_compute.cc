// The ops whose limit is arithmetic, in the shapes that our models have.
#include "tenon/kernels/conv.h"
#include "tenon/kernels/matmul.h"
#include "tenon/tools/op_bench.h"

namespace tenon::tools {
namespace {

using Setup = const OpSetup&;

struct Product {
  int64_t m, k, n;
  bool turn_a = false, turn_b = false;  // the operand is a transposed view, as in training
};

OpRun matmul(Setup s, const Product& p) {
  const auto operand = [&](int64_t rows, int64_t columns, bool turned) {
    if (!turned) return s.random({rows, columns});
    return s.random({columns, rows}).as_strided({rows, columns}, {1, rows});
  };
  Tensor a = operand(p.m, p.k, p.turn_a), b = operand(p.k, p.n, p.turn_b), y = s.blank({p.m, p.n});
  return computes(str(p.m, "x", p.k, "x", p.n), 2.0 * p.m * p.k * p.n,
                  [=]() mutable { kernels::matmul(op_device(), a, b, y, {}); });
}

// A convolution with 3x3 weights of a batch of 64, with bias and without padding.
struct Conv {
  int64_t in, out, size;
};
enum class ConvPass { forward, input, weight };

OpRun conv(Setup s, const Conv& c, ConvPass pass) {
  constexpr int64_t kBatch = 64, kSide = 3;
  const int64_t left = c.size - kSide + 1;
  Tensor x = s.image({kBatch, c.in, c.size, c.size}), y = s.image({kBatch, c.out, left, left});
  Tensor weight = s.random({c.out, c.in, kSide, kSide}), bias = s.random({c.out});
  const double flops = 2.0 * static_cast<double>(y.numel() * c.in) * kSide * kSide;
  return computes(str(c.in, "-", c.out, " 3x3 on ", c.size, "x", c.size), flops, [=]() mutable {
    if (pass == ConvPass::forward) {
      kernels::conv2d(op_device(), x, weight, &bias, y, {}, kernels::Activation::none);
    } else if (pass == ConvPass::input) {
      kernels::conv2d_backward_input(op_device(), y, weight, x, {}, false);
    } else {
      kernels::conv2d_backward_weight(op_device(), x, y, weight, &bias, {}, false, false);
    }
  });
}

}  // namespace

std::vector<OpEntry> compute_ops() {
  std::vector<OpEntry> ops;
  const auto product = [&](const char* name, const Product& p) {
    ops.push_back({name, [p](Setup s) { return matmul(s, p); }});
  };
  product("matmul", {64, 64, 64});
  product("matmul", {256, 256, 256});
  product("matmul", {1024, 1024, 1024});
  product("linear", {.m = 128, .k = 784, .n = 1024, .turn_b = true});
  product("linear backward weight", {.m = 1024, .k = 128, .n = 784, .turn_a = true});
  product("linear backward input", {128, 1024, 784});
  for (const Conv c : {Conv{1, 32, 28}, Conv{32, 64, 26}}) {
    const auto pass = [&](const char* name, ConvPass which) {
      ops.push_back({name, [=](Setup s) { return conv(s, c, which); }});
    };
    pass("conv2d", ConvPass::forward);
    pass("conv2d backward input", ConvPass::input);
    pass("conv2d backward weight", ConvPass::weight);
  }
  return ops;
}

}  // namespace tenon::tools
