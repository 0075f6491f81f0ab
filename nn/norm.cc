#include "tenon/nn/norm.h"

#include "tenon/core/factory.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {
namespace {

Shape checked_shape(const char* layer, const char* what, int64_t size) {
  check_positive(layer, what, size);
  return {size};
}

// Running statistics stay in the dtype that kernels compute statistics in.
Tensor statistics(int64_t channels, double value) {
  return full({channels}, value,
              {compute_dtype(default_dtype()), default_device(), Category::other});
}

}  // namespace

LayerNorm::LayerNorm(int64_t features, Options options)
    : weight(this, "weight",
             new_constant(checked_shape("layer_norm", "number of features", features), 1,
                          options.affine)),
      bias(this, "bias", new_constant({features}, 0, options.affine && options.bias)),
      features_(features),
      eps_(options.eps) {}

Tensor LayerNorm::forward(const Tensor& x) {
  TENON_CHECK(x.ndim() >= 1 && x.dim(-1) == features_, "layer_norm",
              "wrong last dimension: given shape ", x.shape(), ", wanted (…, ", features_, ")");
  return layer_norm(compute(x), compute(weight), compute(bias), eps_);
}

RmsNorm::RmsNorm(int64_t features, Options options)
    : weight(this, "weight",
             new_constant(checked_shape("rms_norm", "number of features", features), 1)),
      features_(features),
      eps_(options.eps) {}

Tensor RmsNorm::forward(const Tensor& x) {
  TENON_CHECK(x.ndim() >= 1 && x.dim(-1) == features_, "rms_norm",
              "wrong last dimension: given shape ", x.shape(), ", wanted (…, ", features_, ")");
  return rms_norm(compute(x), compute(weight), eps_);
}

BatchNorm::BatchNorm(int64_t channels, int min_dims, int max_dims, Options options)
    : weight(this, "weight",
             new_constant(checked_shape("batch_norm", "number of channels", channels), 1,
                          options.affine)),
      bias(this, "bias", new_constant({channels}, 0, options.affine)),
      running_mean(this, "running_mean", statistics(channels, 0)),
      running_var(this, "running_var", statistics(channels, 1)),
      min_dims_(min_dims),
      max_dims_(max_dims),
      options_(options) {}

Tensor BatchNorm::forward(const Tensor& x) {
  TENON_CHECK(x.ndim() >= min_dims_ && x.ndim() <= max_dims_ && x.dim(1) == running_mean.dim(0),
              "batch_norm", "wrong input: given shape ", x.shape(), ", wanted ", min_dims_,
              min_dims_ == max_dims_ ? "" : str(" or ", max_dims_), " dimensions and ",
              running_mean.dim(0), " channels");
  return batch_norm(compute(x), compute(weight), compute(bias), running_mean, running_var,
                    {training(), options_.momentum, options_.eps});
}

}  // namespace tenon::nn
