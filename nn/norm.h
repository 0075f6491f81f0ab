// Normalisation layers.
#pragma once

#include "tenon/autograd/ops/norm.h"
#include "tenon/nn/child.h"

namespace tenon::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;  // a learned scale, and a shift if `bias`
  bool bias = true;
};

// Over the last dimension, of size `features`.
class LayerNorm : public Module {
 public:
  using Options = LayerNormOptions;
  explicit LayerNorm(int64_t features, Options options = {});
  Tensor forward(const Tensor& x);

  Parameter weight;
  Parameter bias;

 private:
  int64_t features_;
  double eps_;
};

struct RmsNormOptions {
  double eps = 1e-6;
};

// x / rms(x) * weight over the last dimension, of size `features`.
class RmsNorm : public Module {
 public:
  using Options = RmsNormOptions;
  explicit RmsNorm(int64_t features, Options options = {});
  Tensor forward(const Tensor& x);

  Parameter weight;

 private:
  int64_t features_;
  double eps_;
};

struct BatchNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // of the running statistics
  bool affine = true;     // a learned scale and shift
};

// Over all dimensions but the channels: x (N, C), (N, C, L) or (N, C, H, W). Under data parallelism
// each rank normalises with its own batch; ranks start a forward from rank 0's running statistics.
class BatchNorm : public Module {
 public:
  using Options = BatchNormLayerOptions;
  Tensor forward(const Tensor& x);

  Parameter weight;
  Parameter bias;
  Buffer running_mean;
  Buffer running_var;

 protected:
  BatchNorm(int64_t channels, int min_dims, int max_dims, Options options);

 private:
  int min_dims_;
  int max_dims_;
  Options options_;
};

class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t channels, Options options = {})
      : BatchNorm(channels, 2, 3, options) {}
};
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t channels, Options options = {})
      : BatchNorm(channels, 4, 4, options) {}
};

}  // namespace tenon::nn
