#include "tenon/kernels/conv.h"

#include <optional>

#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/cpu/conv_pointwise.h"
#include "tenon/kernels/cpu/eigen_conv.h"
#include "tenon/kernels/cpu/onednn_conv.h"
#include "tenon/kernels/cpu/onednn_support.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels {
namespace {

void check_dtype(const char* op, const Tensor& tensor) {
  TENON_CHECK(is_floating(tensor.dtype()), op, "unsupported dtype: given ", tensor.dtype(),
              ", wanted one of f32, f64, f16, bf16");
}

// How a call is computed: by oneDNN in `dtype`, or by Eigen in f32 or f64.
struct Plan {
  bool onednn;
  DType dtype;
};
Plan plan_for(const Tensor& a, const Tensor& b, const Tensor& c) {
  const bool empty = a.numel() == 0 || b.numel() == 0 || c.numel() == 0;
  const bool native = !empty && onednn::supports(a.dtype());
  const DType dtype = native ? a.dtype() : compute_dtype(a.dtype());
  return {!empty && onednn::supports(dtype), dtype};
}

void conv2d_cpu(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y,
                const ConvParams& params, Activation activation) {
  check_dtype("conv2d", x);
  if (is_pointwise(weight, params)) {
    return pointwise_conv2d(x, weight, bias, y, params, activation);
  }
  const Plan plan = plan_for(x, weight, y);
  const Tensor image = to_channels_last(x, plan.dtype);
  const Tensor kernel = to_row_major(weight, plan.dtype);
  const Tensor vector = bias != nullptr ? to_row_major(*bias, plan.dtype) : Tensor();
  const Tensor* const added = bias != nullptr ? &vector : nullptr;
  Destination result = channels_last_destination(y, plan.dtype, false);
  if constexpr (onednn::kHaveOneDnn) {
    if (plan.onednn) onednn::conv2d(image, kernel, added, result.buffer(), params);
  }
  if (!plan.onednn) eigen_conv2d(image, kernel, added, result.buffer(), params);
  // Not a post-op of oneDNN's: its relu turns NaN into 0.
  if (activation == Activation::relu) {
    Unary<Relu>::forward(DeviceType::cpu, result.buffer(), result.buffer(), {});
  }
  result.finish();
}

void conv2d_backward_input_cpu(const Tensor& dy, const Tensor& weight, Tensor& dx,
                               const ConvParams& params, bool accumulate) {
  check_dtype("conv2d_backward_input", dy);
  if (is_pointwise(weight, params)) {
    return pointwise_conv2d_backward_input(dy, weight, dx, params, accumulate);
  }
  const Plan plan = plan_for(dy, weight, dx);
  const Tensor gradient = to_channels_last(dy, plan.dtype);
  const Tensor kernel = to_row_major(weight, plan.dtype);
  Destination result = channels_last_destination(dx, plan.dtype, accumulate);
  if constexpr (onednn::kHaveOneDnn) {
    if (plan.onednn) onednn::conv2d_backward_input(gradient, kernel, result.buffer(), params);
  }
  if (!plan.onednn) eigen_conv2d_backward_input(gradient, kernel, result.buffer(), params);
  result.finish();
}

void add_bias_gradient(const Tensor& dy, Tensor& dbias, bool accumulate) {
  Tensor out = dbias.as_strided({1, dbias.dim(0), 1, 1}, {0, dbias.strides()[0], 0, 0});
  constexpr AxisMask kAllButChannels = 0b1101;
  sum(DeviceType::cpu, dy, out, kAllButChannels, 1.0, accumulate);
}

void conv2d_backward_weight_cpu(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor* dbias,
                                const ConvParams& params, bool accumulate, bool accumulate_bias) {
  check_dtype("conv2d_backward_weight", x);
  if (is_pointwise(dweight, params)) {
    pointwise_conv2d_backward_weight(x, dy, dweight, params, accumulate);
    if (dbias != nullptr) add_bias_gradient(dy, *dbias, accumulate_bias);
    return;
  }
  Plan plan = plan_for(x, dy, dweight);
  // oneDNN 2.6's dilated bf16 kernel gives wrong results and writes past its buffers.
  const bool dilated = params.dilation[0] > 1 || params.dilation[1] > 1;
  if (plan.dtype == DType::bf16 && dilated) plan.dtype = DType::f32;
  const Tensor image = to_channels_last(x, plan.dtype);
  const Tensor gradient = to_channels_last(dy, plan.dtype);
  const DType wide = compute_dtype(plan.dtype);
  Destination weights = row_major_destination(dweight, wide, accumulate, true);
  if constexpr (onednn::kHaveOneDnn) {
    if (plan.onednn) {
      std::optional<Destination> bias;
      if (dbias != nullptr) bias = row_major_destination(*dbias, wide, accumulate_bias, false);
      onednn::conv2d_backward_weight(image, gradient, weights.buffer(),
                                     bias ? &bias->buffer() : nullptr, params,
                                     weights.kernel_accumulates());
      if (bias) bias->finish();
    }
  }
  if (!plan.onednn) {
    eigen_conv2d_backward_weight(image, gradient, weights.buffer(), params,
                                 weights.kernel_accumulates());
    if (dbias != nullptr) add_bias_gradient(dy, *dbias, accumulate_bias);
  }
  weights.finish();
}

[[maybe_unused]] const bool filled =
    conv2d.set(DeviceType::cpu, conv2d_cpu) &&
    conv2d_backward_input.set(DeviceType::cpu, conv2d_backward_input_cpu) &&
    conv2d_backward_weight.set(DeviceType::cpu, conv2d_backward_weight_cpu);

}  // namespace
}  // namespace tenon::kernels
