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
  TENON_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1 &&
                  options.divisor >= 0 && options.z_loss >= 0,
              "cross_entropy",
              "wanted label_smoothing within [0, 1], divisor >= 0 and z_loss >= 0");
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
                  Tensor dx = into.may_overwrite(saved_x) ? kept : empty_like(kept);
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
  TENON_CHECK(log_probabilities.dim(1) > 0, "nll_loss", "no classes: given ",
              log_probabilities.shape(), ", wanted (N, C)");
  const DeviceType device = log_probabilities.device().type;
  const Tensor x = log_probabilities.detach(), ids = targets.detach();
  Tensor loss = empty({}, {compute_dtype(x.dtype()), x.device()});
  kernels::nll_loss(device, x, ids, loss);
  if (!needs_grad({log_probabilities})) return loss;
  const SavedTensor saved_ids(ids, "nll_loss", "targets");
  return record("nll_loss", loss, {log_probabilities},
                [=, shape = x.shape(), options = TensorOptions{x.dtype(), x.device()}](
                    const Tensor& grad, GradSinks& into) {
                  Tensor dx = empty(shape, options);
                  kernels::nll_loss_backward(device, saved_ids.unpack(), grad, dx);
                  into[0].add(dx);
                });
}

Tensor mse_loss(const Tensor& a, const Tensor& b) {
  check_same_shape("mse_loss", a, b);
  return mean(square(sub(a, b)));
}

}  // namespace tenon
