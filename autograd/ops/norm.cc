#include "tenon/autograd/ops/norm.h"

#include <cmath>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/detail.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/kernels/norm.h"

namespace tenon {
namespace {

const Tensor* pointer_to(const Tensor& x) { return x.defined() ? &x : nullptr; }

void check_channel_vector(const char* op, const char* what, const Tensor& vector, const Tensor& x,
                          int64_t size) {
  if (!vector.defined()) return;
  check_same_device(op, x, vector);
  TENON_CHECK(vector.ndim() == 1 && vector.dim(0) == size, op, "wrong ", what, ": given ",
              vector.shape(), ", wanted (", size, ")");
}

// Gradients of a normalisation: allocates what is needed, calls the kernel, hands them to the
// sinks.
struct NormGradients {
  Tensor dx, dgamma, dbeta;

  NormGradients(const Tensor& x, int64_t channels, GradSinks& into) {
    const TensorOptions options{x.dtype(), x.device()};
    if (into[0].needed()) dx = empty_like(x);
    if (into[1].needed()) dgamma = empty({channels}, options);
    if (into[2].needed()) dbeta = empty({channels}, options);
  }
  static Tensor* pointer(Tensor& x) { return x.defined() ? &x : nullptr; }
  void give(GradSinks& into, const Shape& shape) {
    if (dgamma.defined()) into[1].add(dgamma);
    if (dbeta.defined()) into[2].add(dbeta);
    if (dx.defined()) into[0].add(detail::raw_reshape(dx, shape));
  }
};

}  // namespace

namespace {

// A normalisation of rows: what forward and backward need of x (…, D).
struct NormRows {
  NormRows(const char* op, const Tensor& x) {
    detail::check_floating(op, x);
    TENON_CHECK(x.ndim() >= 1, op, "no last dimension: given ", x.shape());
    width = x.dim(-1);
    rows = width == 0 ? 0 : x.numel() / width;
    input = detail::raw_contiguous(detail::raw_reshape(x, {rows, width}));
    y = empty({rows, width}, {x.dtype(), x.device()});
    rstd = empty({rows}, {compute_dtype(x.dtype()), x.device()});
  }

  int64_t width, rows;
  Tensor input, y, rstd;
};

// Gives the gradients of (input, gamma, beta) that kernel(dx, dgamma, dbeta, accumulate) computes;
// that of the input goes straight to where it lives.
template <class Kernel>
void give_norm_gradients(const Tensor& input, bool has_beta, GradSinks& into,
                         const Kernel& kernel) {
  const TensorOptions options{input.dtype(), input.device()};
  const int64_t width = input.dim(1);
  Tensor dgamma, dbeta;
  if (into[1].needed()) dgamma = empty({width}, options);
  if (has_beta && into[2].needed()) dbeta = empty({width}, options);
  const auto run = [&](Tensor* dx, bool accumulate) {
    kernel(dx, dgamma.defined() ? &dgamma : nullptr, dbeta.defined() ? &dbeta : nullptr,
           kernels::NormAccumulate{.input = accumulate});
  };
  if (into[0].needed()) {
    into[0].write([&](Tensor& out, bool accumulate) {
      if (out.is_contiguous()) {
        Tensor rows = out.alias(0, input.shape());
        return run(&rows, accumulate);
      }
      Tensor rows = empty(input.shape(), options);
      run(&rows, false);
      detail::put(rows.alias(0, out.shape()), out, accumulate);
    });
  } else {
    run(nullptr, false);
  }
  if (dgamma.defined()) into[1].add(dgamma);
  if (dbeta.defined()) into[2].add(dbeta);
}

// The gradient as contiguous rows.
Tensor gradient_rows(const Tensor& grad, const Tensor& input) {
  return detail::raw_contiguous(detail::raw_reshape(grad, input.shape()));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  NormRows norm("layer_norm", x);
  check_channel_vector("layer_norm", "gamma", gamma, x, norm.width);
  check_channel_vector("layer_norm", "beta", beta, x, norm.width);
  if (gamma.defined()) check_same_dtype("layer_norm", x, gamma);
  if (beta.defined()) check_same_dtype("layer_norm", x, beta);
  const DeviceType device = x.device().type;
  Tensor mean = empty_like(norm.rstd);
  kernels::layer_norm(device, norm.input, pointer_to(gamma), pointer_to(beta), norm.y, mean,
                      norm.rstd, eps);
  const Tensor result = norm.y.alias(0, x.shape());
  if (!needs_grad({x, gamma, beta})) return result;
  const SavedTensor saved_x(norm.input, "layer_norm", "input"),
      saved_gamma(gamma, "layer_norm", "gamma");
  return record("layer_norm", result, {x, gamma, beta},
                [=, rstd = norm.rstd](const Tensor& grad, GradSinks& into) {
                  const Tensor input = saved_x.unpack(), scale = saved_gamma.unpack();
                  const Tensor dy = gradient_rows(grad, input);
                  give_norm_gradients(
                      input, true, into,
                      [&](Tensor* dx, Tensor* dgamma, Tensor* dbeta, kernels::NormAccumulate add) {
                        kernels::layer_norm_backward(device, input, pointer_to(scale), mean, rstd,
                                                     dy, dx, dgamma, dbeta, add);
                      });
                });
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double eps) {
  NormRows norm("rms_norm", x);
  check_channel_vector("rms_norm", "gamma", gamma, x, norm.width);
  if (gamma.defined()) check_same_dtype("rms_norm", x, gamma);
  const DeviceType device = x.device().type;
  kernels::rms_norm(device, norm.input, pointer_to(gamma), norm.y, norm.rstd, eps);
  const Tensor result = norm.y.alias(0, x.shape());
  if (!needs_grad({x, gamma})) return result;
  const SavedTensor saved_x(norm.input, "rms_norm", "input"),
      saved_gamma(gamma, "rms_norm", "gamma");
  return record(
      "rms_norm", result, {x, gamma}, [=, rstd = norm.rstd](const Tensor& grad, GradSinks& into) {
        const Tensor input = saved_x.unpack(), scale = saved_gamma.unpack();
        const Tensor dy = gradient_rows(grad, input);
        give_norm_gradients(input, false, into,
                            [&](Tensor* dx, Tensor* dgamma, Tensor*, kernels::NormAccumulate add) {
                              kernels::rms_norm_backward(device, input, pointer_to(scale), rstd, dy,
                                                         dx, dgamma, add);
                            });
      });
}

namespace {

// running = (1 - momentum) running + momentum batch, with the unbiased variance, which follows from
// the saved 1 / sqrt(variance + eps).
void update_running(const Tensor& running_mean, const Tensor& running_var, const Tensor& mean,
                    const Tensor& rstd, double count, const BatchNormOptions& options) {
  const NoGrad no_grad;
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  if (running_mean.defined()) {
    mul_(running_mean, 1 - options.momentum);
    add_(running_mean, mean, options.momentum);
  }
  if (running_var.defined()) {
    const Tensor variance = affine(reciprocal(square(rstd)), 1, -options.eps);
    mul_(running_var, 1 - options.momentum);
    add_(running_var, variance, options.momentum * unbiased);
  }
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  detail::check_floating("batch_norm", x);
  TENON_CHECK(x.ndim() >= 2 && x.ndim() <= 4, "batch_norm", "wrong shape: given ", x.shape(),
              ", wanted (N, C), (N, C, L) or (N, C, H, W)");
  const int64_t channels = x.dim(1);
  for (const auto& [what, vector] :
       {std::pair{"gamma", &gamma}, std::pair{"beta", &beta},
        std::pair{"running_mean", &running_mean}, std::pair{"running_var", &running_var}}) {
    check_channel_vector("batch_norm", what, *vector, x, channels);
  }
  if (gamma.defined()) check_same_dtype("batch_norm", x, gamma);
  if (beta.defined()) check_same_dtype("batch_norm", x, beta);
  if (beta.defined()) check_same_dtype("batch_norm", x, beta);
  const bool batch_statistics = options.training || !running_mean.defined();
  const double count = channels == 0 ? 0 : static_cast<double>(x.numel() / channels);
  TENON_CHECK(!batch_statistics || count > 1 || x.numel() == 0, "batch_norm",
              "one value per channel has no variance: given ", x.shape(),
              " in training, wanted more than one");
  const DeviceType device = x.device().type;
  const Tensor source = detail::is_channels_last(x) ? x.detach() : detail::raw_contiguous(x);
  const Tensor input = x.ndim() == 2 ? source.alias(0, {x.dim(0), channels, 1}) : source;
  Tensor y = empty_like(input);
  const TensorOptions compute{compute_dtype(x.dtype()), x.device()};
  Tensor mean = empty({channels}, compute), rstd = empty({channels}, compute);
  if (batch_statistics) {
    kernels::batch_norm(device, input, pointer_to(gamma), pointer_to(beta), y, mean, rstd,
                        options.eps);
    if (options.training && x.numel() > 0) {
      update_running(running_mean, running_var, mean, rstd, count, options);
    }
  } else {
    const NoGrad no_grad;
    mean = clone(to(running_mean, compute.dtype));  // later updates must not reach backward
    rstd = rsqrt(affine(to(running_var, compute.dtype), 1, options.eps));
    kernels::batch_norm_inference(device, input, pointer_to(gamma), pointer_to(beta), mean, rstd,
                                  y);
  }
  const Tensor result = x.ndim() == 2 ? y.alias(0, x.shape()) : y.detach();
  if (!needs_grad({x, gamma, beta})) return result;
  const SavedTensor saved_x(input, "batch_norm", "input"),
      saved_gamma(gamma, "batch_norm", "gamma");
  return record("batch_norm", result, {x, gamma, beta},
                [=, shape = x.shape()](const Tensor& grad, GradSinks& into) {
                  const Tensor kept = saved_x.unpack(), scale = saved_gamma.unpack();
                  NormGradients gradients(kept, channels, into);
                  Tensor dy = empty_like(kept);
                  kernels::copy(device, detail::raw_reshape(grad, kept.shape()), dy);
                  kernels::batch_norm_backward(device, kept, pointer_to(scale), mean, rstd, dy,
                                               NormGradients::pointer(gradients.dx),
                                               NormGradients::pointer(gradients.dgamma),
                                               NormGradients::pointer(gradients.dbeta),
                                               batch_statistics, false);
                  gradients.give(into, shape);
                });
}

}  // namespace tenon
