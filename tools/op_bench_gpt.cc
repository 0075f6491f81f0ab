// The ops of one step of bench_train's gpt: 6 heads, 384 wide, 8 sequences of 256 tokens by
// default.
#include "tenon/kernels/attention.h"
#include "tenon/kernels/loss.h"
#include "tenon/kernels/matmul.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/rotary.h"
#include "tenon/tools/op_bench.h"

namespace tenon::tools {
namespace {

using Setup = const OpSetup&;

constexpr int64_t kHeads = 6, kWidth = 64, kVocab = 65;
constexpr int64_t kDim = kHeads * kWidth;

struct Layer {
  int64_t in, out;
  bool residual = false;
};
enum class Pass { forward, input, weight };

OpRun linear(Setup s, const Layer& layer, Pass pass) {
  const int64_t rows = s.gpt_rows();
  const Tensor x = s.random({rows, layer.in}), weight = s.random({layer.out, layer.in});
  const Tensor turned = weight.as_strided({layer.in, layer.out}, {1, layer.in});
  const Tensor dy = s.random({rows, layer.out}), residual = s.random({rows, layer.out});
  const Tensor dy_turned = dy.as_strided({layer.out, rows}, {1, layer.out});
  Tensor y = s.blank({rows, layer.out}), dx = s.blank({rows, layer.in});
  Tensor dweight = s.state({layer.out, layer.in});
  const double flops = 2.0 * static_cast<double>(rows * layer.in * layer.out);
  return computes(str(rows, "x", layer.in, "x", layer.out), flops, [=]() mutable {
    if (pass == Pass::forward) {
      kernels::matmul(op_device(), x, turned, y,
                      {.residual = layer.residual ? &residual : nullptr});
    } else if (pass == Pass::input) {
      kernels::matmul(op_device(), dy, weight, dx, {});
    } else {
      kernels::matmul(op_device(), dy_turned, x, dweight, {});
    }
  });
}

// Queries, keys and values are parts of one product, as in our models.
struct Attention {
  explicit Attention(Setup s)
      : sequences(s.sequences),
        tokens(s.tokens),
        qkv(s.random({s.gpt_rows(), 3 * kDim})),
        dqkv(s.blank({s.gpt_rows(), 3 * kDim})),
        out(s.blank({s.gpt_rows(), kDim})),
        dout(s.random({s.gpt_rows(), kDim})),
        log_sum_exp(s.state({s.sequences, kHeads, s.tokens})) {}

  Tensor heads(const Tensor& packed, int64_t number) const {
    const int64_t row = packed.dim(1);
    return packed.as_strided({sequences, kHeads, tokens, kWidth}, {tokens * row, kWidth, row, 1},
                             number * kDim);
  }
  void forward() {
    Tensor result = heads(out, 0);
    kernels::attention(op_device(), heads(qkv, 0), heads(qkv, 1), heads(qkv, 2), result,
                       log_sum_exp, {.scale = 0.125});
  }
  void backward() {
    Tensor dq = heads(dqkv, 0), dk = heads(dqkv, 1), dv = heads(dqkv, 2);
    kernels::attention_backward(op_device(), heads(qkv, 0), heads(qkv, 1), heads(qkv, 2),
                                heads(out, 0), log_sum_exp, heads(dout, 0), dq, dk, dv,
                                {.scale = 0.125});
  }

  int64_t sequences, tokens;
  Tensor qkv, dqkv, out, dout, log_sum_exp;
};

OpRun attention(Setup s, bool backward) {
  Attention all(s);
  all.forward();
  // The masked half is left out. Forward has 2 products of T x T x D, backward 5.
  const double flops =
      (backward ? 5 : 2) * 2.0 *
      static_cast<double>(s.sequences * kHeads * s.tokens * (s.tokens + 1) / 2 * kWidth);
  return computes(str(s.sequences, "x", kHeads, "x", s.tokens, "x", kWidth), flops,
                  [=]() mutable { backward ? all.backward() : all.forward(); });
}

OpRun layer_norm(Setup s, bool backward) {
  const Shape shape{s.gpt_rows(), kDim};
  Tensor x = s.random(shape), y = s.blank(shape), dy = s.random(shape), gamma = s.random({kDim});
  Tensor mean = s.state({s.gpt_rows()}), rstd = s.state({s.gpt_rows()}), dgamma = s.state({kDim});
  kernels::layer_norm(op_device(), x, &gamma, nullptr, y, mean, rstd, 1e-5);
  if (!backward) {
    return moves(shape, {x, y}, [=]() mutable {
      kernels::layer_norm(op_device(), x, &gamma, nullptr, y, mean, rstd, 1e-5);
    });
  }
  // Added to the gradient of the residual stream.
  return moves(shape, {x, dy, y, y}, [=]() mutable {
    kernels::layer_norm_backward(op_device(), x, &gamma, mean, rstd, dy, &y, &dgamma, nullptr,
                                 {.input = true});
  });
}

OpRun rms_norm(Setup s, bool backward) {
  const Shape shape{s.gpt_rows(), kDim};
  Tensor x = s.random(shape), y = s.blank(shape), dy = s.random(shape), gamma = s.random({kDim});
  Tensor rstd = s.state({s.gpt_rows()}), dgamma = s.state({kDim});
  kernels::rms_norm(op_device(), x, &gamma, y, rstd, 1e-5);
  if (!backward) {
    return moves(shape, {x, y},
                 [=]() mutable { kernels::rms_norm(op_device(), x, &gamma, y, rstd, 1e-5); });
  }
  return moves(shape, {x, dy, y, y}, [=]() mutable {
    kernels::rms_norm_backward(op_device(), x, &gamma, rstd, dy, &y, &dgamma, {.input = true});
  });
}

OpRun gelu(Setup s, bool backward) {
  const Shape shape{s.gpt_rows(), 4 * kDim};
  Tensor x = s.random(shape), y = s.random(shape);
  using Gelu = kernels::Unary<kernels::Gelu>;
  if (!backward) {
    return moves(shape, {x, y}, [=]() mutable { Gelu::forward(op_device(), x, y, {}); });
  }
  return moves(shape, {x, y, y},
               [=]() mutable { Gelu::backward(op_device(), x, y, y, {}, false); });
}

OpRun silu_mul(Setup s, bool backward) {
  const Shape shape{s.gpt_rows(), 1024};
  Tensor a = s.random(shape), b = s.random(shape), y = s.random(shape);
  Tensor da = s.blank(shape), db = s.blank(shape);
  using SiluMul = kernels::Binary<kernels::SiluMul>;
  if (!backward) {
    return moves(shape, {a, b, y}, [=]() mutable { SiluMul::forward(op_device(), a, b, y); });
  }
  return moves(shape, {a, b, y, da, db},
               [=]() mutable { SiluMul::backward(op_device(), a, b, y, &da, &db); });
}

OpRun rotary(Setup s) {
  const Shape shape{s.sequences, s.tokens, 2 * kHeads, kWidth};
  Tensor x = s.random(shape), y = s.blank(shape);
  const Tensor cosines = s.state({s.tokens, kWidth / 2}), sines = s.state({s.tokens, kWidth / 2});
  return moves(shape, {x, y}, [=]() mutable {
    kernels::rotary(op_device(), x, cosines, sines, y, {.heads = 2 * kHeads});
  });
}

OpRun cross_entropy(Setup s, bool backward) {
  const Shape shape{s.gpt_rows(), kVocab};
  const Tensor targets = s.ids(s.gpt_rows(), kVocab);
  Tensor logits = s.random(shape), gradient = s.blank(shape);
  Tensor loss = s.state({}), weight = s.state({}), log_sum_exp = s.state({s.gpt_rows()});
  kernels::cross_entropy(op_device(), logits, targets, loss, log_sum_exp, weight, {});
  if (!backward) {
    return moves(shape, {logits}, [=]() mutable {
      kernels::cross_entropy(op_device(), logits, targets, loss, log_sum_exp, weight, {});
    });
  }
  return moves(shape, {logits, gradient}, [=]() mutable {
    kernels::cross_entropy_backward(op_device(), logits, targets, log_sum_exp, weight, loss,
                                    gradient, {});
  });
}

}  // namespace

std::vector<OpEntry> gpt_ops() {
  std::vector<OpEntry> ops;
  const auto layer = [&](const char* name, const Layer& l) {
    ops.push_back({str("gpt ", name), [l](Setup s) { return linear(s, l, Pass::forward); }});
    ops.push_back(
        {str("gpt ", name, " d input"), [l](Setup s) { return linear(s, l, Pass::input); }});
    ops.push_back(
        {str("gpt ", name, " d weight"), [l](Setup s) { return linear(s, l, Pass::weight); }});
  };
  layer("qkv", {kDim, 3 * kDim});
  layer("proj", {kDim, kDim, true});
  layer("fc", {kDim, 4 * kDim});
  layer("mlp proj", {4 * kDim, kDim, true});
  layer("head", {kDim, kVocab});
  const auto both = [&](const char* name, OpRun (*setup)(Setup, bool)) {
    ops.push_back({str("gpt ", name), [=](Setup s) { return setup(s, false); }});
    ops.push_back({str("gpt ", name, " backward"), [=](Setup s) { return setup(s, true); }});
  };
  both("attention", attention);
  both("layer_norm", layer_norm);
  both("rms_norm", rms_norm);
  both("gelu", gelu);
  both("silu_mul", silu_mul);
  ops.push_back({"gpt rotary", rotary});
  both("cross_entropy", cross_entropy);
  return ops;
}

}  // namespace tenon::tools
