// The ops whose limit is memory. Kernels are called directly: nothing is allocated or recorded.
#include <algorithm>
#include <array>

#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/embedding.h"
#include "tenon/kernels/loss.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/optimizer.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/pool.h"
#include "tenon/kernels/random.h"
#include "tenon/kernels/rank_reduce.h"
#include "tenon/kernels/reduce.h"
#include "tenon/kernels/softmax.h"
#include "tenon/tools/op_bench.h"

namespace tenon::tools {
namespace {

using Setup = const OpSetup&;

template <class Op>
OpRun unary(Setup s) {
  Tensor x = s.random({s.size}), y = s.blank({s.size});
  return moves(x.shape(), {x, y},
               [=]() mutable { kernels::Unary<Op>::forward(op_device(), x, y, {}); });
}
template <class Op>
OpRun unary_backward(Setup s) {
  Tensor saved = s.random({s.size}), dy = s.random({s.size}), dx = s.blank({s.size});
  return moves(dy.shape(), {saved, dy, dx}, [=]() mutable {
    kernels::Unary<Op>::backward(op_device(), saved, dy, dx, {}, false);
  });
}
template <class Op>
OpRun binary(Setup s) {
  Tensor a = s.random({s.size}), b = s.random({s.size}), y = s.blank({s.size});
  return moves(y.shape(), {a, b, y},
               [=]() mutable { kernels::Binary<Op>::forward(op_device(), a, b, y); });
}

OpRun add_bias(Setup s) {
  Tensor x = s.random(s.rows()), bias = s.random({OpSetup::kRow}), y = s.blank(s.rows());
  const Tensor repeated = bias.as_strided(s.rows(), {0, 1});
  return moves(x.shape(), {x, bias, y}, [=]() mutable {
    kernels::Binary<kernels::Add>::forward(op_device(), x, repeated, y);
  });
}

OpRun accumulate(Setup s) {
  Tensor x = s.random({s.size}), into = s.blank({s.size});
  return moves(x.shape(), {x, into, into},
               [=]() mutable { kernels::accumulate(op_device(), x, into, 1); });
}

OpRun copy_to(Setup s, DType type) {
  Tensor x = s.random({s.size}), y = s.blank({s.size}, type);
  return moves(x.shape(), {x, y}, [=]() mutable { kernels::copy(op_device(), x, y); });
}

OpRun copy_transposed(Setup s) {
  Tensor x = s.random(s.rows()), y = s.blank({OpSetup::kRow, s.rows()[0]});
  const Tensor turned = x.as_strided(y.shape(), {1, OpSetup::kRow});
  return moves(x.shape(), {x, y}, [=]() mutable { kernels::copy(op_device(), turned, y); });
}

OpRun fill(Setup s) {
  Tensor x = s.blank({s.size});
  return moves(x.shape(), {x}, [=]() mutable { kernels::fill(op_device(), x, 1); });
}

OpRun sum(Setup s, kernels::AxisMask axes) {
  Tensor x = s.random(s.rows());
  Tensor out = s.blank({axes & 1 ? 1 : x.dim(0), axes & 2 ? 1 : x.dim(1)});
  return moves(x.shape(), {x, out},
               [=]() mutable { kernels::sum(op_device(), x, out, axes, 1, false); });
}

OpRun largest(Setup s) {
  Tensor x = s.random(s.rows());
  Tensor values = s.blank({x.dim(0), 1}), indices = s.blank({x.dim(0), 1}, DType::i64);
  return moves(x.shape(), {x, values, indices},
               [=]() mutable { kernels::max(op_device(), x, values, indices, 1); });
}

template <class Slot>
OpRun row_wise(Setup s, const Slot& slot) {
  Tensor x = s.random(s.rows()), y = s.blank(s.rows());
  return moves(x.shape(), {x, y}, [=, &slot]() mutable { slot(op_device(), x, y, 1); });
}
template <class Slot>
OpRun row_wise_backward(Setup s, const Slot& slot) {
  Tensor y = s.random(s.rows()), dy = s.random(s.rows()), dx = s.blank(s.rows());
  return moves(y.shape(), {y, dy, dx}, [=, &slot]() mutable { slot(op_device(), y, dy, dx, 1); });
}

// What both directions of the loss work with.
OpRun cross_entropy(Setup s, bool backward) {
  Tensor logits = s.random(s.rows()), targets = s.ids(logits.dim(0), logits.dim(1));
  Tensor loss = s.state({}), log_sum_exp = s.state({logits.dim(0)}), weight = s.state({});
  auto forward = [=]() mutable {
    kernels::cross_entropy(op_device(), logits, targets, loss, log_sum_exp, weight, {});
  };
  if (!backward) return moves(logits.shape(), {logits, targets, log_sum_exp}, forward);
  forward();
  Tensor dlogits = s.blank(logits.shape());
  return moves(logits.shape(), {logits, targets, log_sum_exp, dlogits}, [=]() mutable {
    kernels::cross_entropy_backward(op_device(), logits, targets, log_sum_exp, weight, loss,
                                    dlogits, {});
  });
}

// Tensors of a layer norm over rows or a batch norm over channels.
struct Norm {
  Norm(Setup s, const Tensor& input, int64_t features, int64_t statistics)
      : x(input),
        y(empty_like(input)),
        gamma(s.random({features})),
        beta(s.random({features})),
        mean(s.state({statistics})),
        rstd(s.state({statistics})),
        dgamma(s.blank({features})),
        dbeta(s.blank({features})) {
    dy = empty_like(input);
    kernels::copy(op_device(), x, dy);
  }
  // For rows of `s`, and for images of about as many elements.
  static Norm of_rows(Setup s) {
    const Tensor x = s.random(s.rows());
    return {s, x, x.dim(1), x.dim(0)};
  }
  static Norm of_images(Setup s) {
    const Tensor x = s.image({std::max<int64_t>(s.size / (64 * 16 * 16), 1), 64, 16, 16});
    return {s, x, x.dim(1), x.dim(1)};
  }
  void layer_norm() { kernels::layer_norm(op_device(), x, &gamma, &beta, y, mean, rstd, 1e-5); }
  void layer_norm_backward() {
    kernels::layer_norm_backward(op_device(), x, &gamma, mean, rstd, dy, &y, &dgamma, &dbeta, {});
  }
  void batch_norm() { kernels::batch_norm(op_device(), x, &gamma, &beta, y, mean, rstd, 1e-5); }
  void batch_norm_backward() {
    kernels::batch_norm_backward(op_device(), x, &gamma, mean, rstd, dy, &y, &dgamma, &dbeta, true,
                                 false);
  }

  Tensor x, y, dy, gamma, beta, mean, rstd, dgamma, dbeta;
};

OpRun norm_forward(Norm norm, void (Norm::*forward)()) {
  return moves(norm.x.shape(), {norm.x, norm.y, norm.gamma, norm.beta, norm.mean, norm.rstd},
               [=]() mutable { (norm.*forward)(); });
}
OpRun norm_backward(Norm norm, void (Norm::*forward)(), void (Norm::*backward)()) {
  (norm.*forward)();
  return moves(norm.x.shape(),
               {norm.x, norm.dy, norm.y, norm.gamma, norm.mean, norm.rstd, norm.dgamma, norm.dbeta},
               [=]() mutable { (norm.*backward)(); });
}

OpRun embedding(Setup s, bool backward) {
  constexpr int64_t kWidth = 256;
  const int64_t count = std::max<int64_t>(s.size / kWidth, 1);
  Tensor weight = s.random({std::min<int64_t>(count, 8192), kWidth});
  Tensor ids = s.ids(count, weight.dim(0)), rows = s.random({count, kWidth});
  if (backward) {
    return moves(rows.shape(), {rows, ids, weight, weight}, [=]() mutable {
      kernels::embedding_backward(op_device(), rows, ids, weight, true);
    });
  }
  return moves(rows.shape(), {weight, ids, rows},
               [=]() mutable { kernels::embedding(op_device(), weight, ids, rows); });
}

OpRun dropout(Setup s, bool backward) {
  Tensor x = s.random({s.size}), y = s.blank({s.size}), mask = s.blank({s.size}, DType::u8);
  return moves(x.shape(), {x, y, mask}, [=]() mutable {
    if (backward) {
      kernels::dropout_backward(op_device(), x, mask, y, 0.5);
    } else {
      kernels::dropout(op_device(), x, y, mask, 0.5, {});
    }
  });
}

template <class Slot>
OpRun draw(Setup s, const Slot& slot) {
  Tensor x = s.blank({s.size});
  return moves(x.shape(), {x}, [=, &slot]() mutable { slot(op_device(), x, 0, 1, {}); });
}

OpRun sgd(Setup s) {
  const Tensor p = s.random({s.size}), g = s.random({s.size}), m = s.state({s.size});
  return moves(p.shape(), {p, p, g, m, m},
               [=] { kernels::sgd(op_device(), {p}, {g}, {m}, {.lr = 1e-3, .momentum = 0.9}); });
}
// An optimizer with two tensors of state.
template <class Slot, class Step>
OpRun optimizer(Setup s, const Slot& slot, const Step& step) {
  const Tensor p = s.random({s.size}), g = s.random({s.size});
  const Tensor m = s.state({s.size}), v = s.state({s.size});
  return moves(p.shape(), {p, p, g, m, m, v, v},
               [=, &slot] { slot(op_device(), {p}, {g}, {m}, {v}, step); });
}

OpRun rank_reduce(Setup s) {
  const Tensor a = s.random({s.size}), b = s.random({s.size}), out = s.blank({s.size});
  return moves(a.shape(), {a, b, out}, [=] {
    const std::array<const void*, 2> sources{a.raw_data(), b.raw_data()};
    const std::array<void*, 1> destinations{out.raw_data()};
    kernels::rank_reduce(op_device(), {.sources = sources,
                                       .destinations = destinations,
                                       .count = out.numel(),
                                       .dtype = out.dtype()});
  });
}

struct Pool {
  explicit Pool(Setup s) : x(s.image({64, 64, 24, 24})), y(s.image({64, 64, 12, 12})) {
    window = empty(y.shape(), {.dtype = DType::u8}).as_strided(y.shape(), y.strides());
    kernels::max_pool2d(op_device(), x, y, window, {});
  }
  Tensor x, y, window;
};
OpRun max_pool(Setup s, bool backward) {
  Pool pool(s);
  return moves(pool.x.shape(), {pool.x, pool.y, pool.window}, [=]() mutable {
    if (backward) {
      kernels::max_pool2d_backward(op_device(), pool.y, pool.window, pool.x, {});
    } else {
      kernels::max_pool2d(op_device(), pool.x, pool.y, pool.window, {});
    }
  });
}
OpRun avg_pool(Setup s, bool backward) {
  Pool pool(s);
  return moves(pool.x.shape(), {pool.x, pool.y}, [=]() mutable {
    if (backward) {
      kernels::avg_pool2d_backward(op_device(), pool.y, pool.x, {});
    } else {
      kernels::avg_pool2d(op_device(), pool.x, pool.y, {});
    }
  });
}

template <class Op>
void add_unary(std::vector<OpEntry>& entries) {
  entries.push_back({Op::name, unary<Op>});
  entries.push_back({str(Op::name, " backward"), unary_backward<Op>});
}

std::vector<OpEntry> pointwise_ops() {
  std::vector<OpEntry> ops;
  add_unary<kernels::Relu>(ops);
  add_unary<kernels::Gelu>(ops);
  add_unary<kernels::Exp>(ops);
  add_unary<kernels::Tanh>(ops);
  const std::vector<OpEntry> rest{
      {"add", binary<kernels::Add>},
      {"mul", binary<kernels::Mul>},
      {"add bias", add_bias},
      {"accumulate", accumulate},
      {"copy", [](Setup s) { return copy_to(s, s.dtype); }},
      {"copy transposed", copy_transposed},
      {"cast to bf16",
       [](Setup s) { return copy_to(s, DType::bf16); },
       {DType::f32, DType::f64, DType::f16}},
      {"cast to f32",
       [](Setup s) { return copy_to(s, DType::f32); },
       {DType::f64, DType::f16, DType::bf16}},
      {"fill", fill},
      {"uniform", [](Setup s) { return draw(s, kernels::uniform); }},
      {"normal", [](Setup s) { return draw(s, kernels::normal); }},
      {"dropout", [](Setup s) { return dropout(s, false); }},
      {"dropout backward", [](Setup s) { return dropout(s, true); }},
      {"sgd momentum", sgd},
      {"adam",
       [](Setup s) {
         return optimizer(s, kernels::adam,
                          kernels::AdamStep{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8});
       }},
      {"adadelta",
       [](Setup s) {
         return optimizer(s, kernels::adadelta,
                          kernels::AdadeltaStep{.lr = 1, .rho = 0.9, .eps = 1e-6});
       }},
      {"rank_reduce of 2", rank_reduce}};
  ops.insert(ops.end(), rest.begin(), rest.end());
  return ops;
}

std::vector<OpEntry> row_ops() {
  return {
      {"sum", [](Setup s) { return sum(s, 3); }},
      {"sum of rows", [](Setup s) { return sum(s, 2); }},
      {"sum of columns", [](Setup s) { return sum(s, 1); }},
      {"max of rows", largest},
      {"softmax", [](Setup s) { return row_wise(s, kernels::softmax); }},
      {"softmax backward", [](Setup s) { return row_wise_backward(s, kernels::softmax_backward); }},
      {"log_softmax", [](Setup s) { return row_wise(s, kernels::log_softmax); }},
      {"log_softmax backward",
       [](Setup s) { return row_wise_backward(s, kernels::log_softmax_backward); }},
      {"cross_entropy", [](Setup s) { return cross_entropy(s, false); }},
      {"cross_entropy backward", [](Setup s) { return cross_entropy(s, true); }},
      {"layer_norm", [](Setup s) { return norm_forward(Norm::of_rows(s), &Norm::layer_norm); }},
      {"layer_norm backward",
       [](Setup s) {
         return norm_backward(Norm::of_rows(s), &Norm::layer_norm, &Norm::layer_norm_backward);
       }},
      {"batch_norm", [](Setup s) { return norm_forward(Norm::of_images(s), &Norm::batch_norm); }},
      {"batch_norm backward",
       [](Setup s) {
         return norm_backward(Norm::of_images(s), &Norm::batch_norm, &Norm::batch_norm_backward);
       }},
      {"embedding", [](Setup s) { return embedding(s, false); }},
      {"embedding backward", [](Setup s) { return embedding(s, true); }},
      {"max_pool2d", [](Setup s) { return max_pool(s, false); }},
      {"max_pool2d backward", [](Setup s) { return max_pool(s, true); }},
      {"avg_pool2d", [](Setup s) { return avg_pool(s, false); }},
      {"avg_pool2d backward", [](Setup s) { return avg_pool(s, true); }}};
}

}  // namespace

std::vector<OpEntry> memory_ops() {
  std::vector<OpEntry> ops = pointwise_ops();
  const std::vector<OpEntry> rows = row_ops();
  ops.insert(ops.end(), rows.begin(), rows.end());
  return ops;
}

}  // namespace tenon::tools
