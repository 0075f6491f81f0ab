#include "tenon/autograd/ops/loss.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"

namespace tenon {

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options) {
  detail::check_floating("cross_entropy", logits);
  detail::check_index("cross_entropy", targets);
  check_same_device("cross_entropy", logits, targets);
  Shape rows_shape = logits.shape();
  TENON_CHECK(logits.ndim() >= 1 && logits.dim(-1) > 0, "cross_entropy",
              "no classes: given logits ", logits.shape(), ", wanted (…, C)");
  rows_shape.erase(rows_shape.size() - 1);
  TENON_CHECK(targets.shape() == rows_shape, "cross_entropy", "shapes do not fit: given logits ",
              logits.shape(), " and targets ", targets.shape(), ", wanted (…, C) and (…)");
  TENON_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1 && options.divisor >= 0,
              "cross_entropy", "wanted label_smoothing within [0, 1] and divisor >= 0");
  const DeviceType device = logits.device().type;
  const int64_t classes = logits.dim(-1), rows = rows_shape.numel();
  const Tensor x = detail::raw_contiguous(logits).alias(0, {rows, classes});
  const Tensor ids = detail::raw_contiguous(targets).alias(0, {rows});
  const TensorOptions compute{compute_dtype(logits.dtype()), logits.device()};
  Tensor loss = empty({}, compute), weight = empty({}, compute);
  Tensor log_sum_exp = empty({rows}, compute);
  kernels::cross_entropy(device, x, ids, loss, log_sum_exp, weight, options);
  if (!needs_grad({logits})) return loss;
  const SavedTensor saved_x(x, "cross_entropy", "logits"),
      saved_ids(ids, "cross_entropy", "targets");
  return record("cross_entropy", loss, {logits},
                [=, shape = logits.shape()](const Tensor& grad, GradSinks& into) {
                  const Tensor kept = saved_x.unpack();
                  Tensor dx = empty_like(kept);
                  kernels::cross_entropy_backward(device, kept, saved_ids.unpack(), log_sum_exp,
                                                  weight, grad, dx, options);
                  into[0].add(dx.alias(0, shape));
                });
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets) {
  detail::check_floating("nll_loss", log_probabilities);
  detail::check_index("nll_loss", targets);
  check_same_device("nll_loss", log_probabilities, targets);
  TENON_CHECK(log_probabilities.ndim() == 2 && targets.ndim() == 1 &&
                  targets.dim(0) == log_probabilities.dim(0),
              "nll_loss", "shapes do not fit: given ", log_probabilities.shape(), " and ",
              targets.shape(), ", wanted (N, C) and (N)");
  const int64_t rows = log_probabilities.dim(0), classes = log_probabilities.dim(1);
  // Row i's element is number i * C + target of the flattened matrix: its gradient goes there
  // alone.
  const std::vector<double> ids = targets.to_vector();
  std::vector<int64_t> places(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<int64_t>(ids[i]);
    TENON_CHECK(id >= 0 && id < classes, "nll_loss", "target out of range: row ", i, " has ", id,
                ", wanted [0, ", classes, ")");
    places[i] = static_cast<int64_t>(i) * classes + id;
  }
  const DeviceType device = log_probabilities.device().type;
  const Tensor index = from_data(places, {rows}, Category::activation, log_probabilities.device());
  const Tensor flat = detail::raw_contiguous(log_probabilities).alias(0, {rows * classes});
  Tensor picked = empty({rows}, {flat.dtype(), flat.device()});
  kernels::index_select(device, flat, index, picked, 0);
  const Tensor chosen =
      record("nll_loss", picked, {log_probabilities}, [=](const Tensor& grad, GradSinks& into) {
        Tensor dx = zeros({rows * classes}, {grad.dtype(), grad.device()});
        kernels::index_add(device, grad, index, dx, 0);
        into[0].add(dx.alias(0, {rows, classes}));
      });
  return neg(mean(chosen));
}

Tensor mse_loss(const Tensor& a, const Tensor& b) {
  check_same_shape("mse_loss", a, b);
  return mean(square(sub(a, b)));
}

}  // namespace tenon
