#include "tenon/kernels/conv.h"

#include <algorithm>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/bias_activation.h"
#include "tenon/kernels/cuda/convolution.h"
#include "tenon/kernels/cuda/precision.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels::cuda {
namespace {

// cuDNN counts the elements of a tensor in 31 bits.
constexpr int64_t kMaxElements = (int64_t{1} << 31) - 1;

struct Call {
  ConvPass pass;
  const Tensor& x;
  const Tensor& weight;
  const Tensor& y;
  const ConvParams& params;
  bool accumulate = false;

  const Tensor& result() const {
    return pass == ConvPass::forward ? y : pass == ConvPass::input_gradient ? x : weight;
  }
  DType dtype() const { return pass == ConvPass::forward ? x.dtype() : y.dtype(); }
};

// In which dtype and layout the library computes.
struct Way {
  DType dtype;
  bool channels_last;
  bool tf32;
};

// The images' own layout where they agree; otherwise channels-last, which tensor cores want.
bool prefers_channels_last(const Call& call) {
  if (call.x.is_contiguous() && call.y.is_contiguous()) return false;
  return is_channels_last(call.x) || is_channels_last(call.y);
}

// The best first. f64 is row-major only; row-major is what the library has most algorithms for.
// Products of 16-bit inputs are exact in TF32, so f32 with TF32 stands in for what the library
// cannot do in 16 bits, and for gradients that are wanted in f32.
std::vector<Way> ways_of(const Call& call) {
  const DType dtype = call.dtype();
  const bool last = dtype != DType::f64 && prefers_channels_last(call);
  std::vector<Way> ways;
  auto add = [&](DType in, bool tf32) {
    if (last) ways.push_back({in, true, tf32});
    ways.push_back({in, false, tf32});
  };
  const bool narrow = size_of(dtype) == 2;
  if (!narrow || call.result().dtype() == dtype) {
    add(dtype, dtype == DType::f32 && tf32_allowed());
  }
  if (narrow) add(DType::f32, true);
  return ways;
}

std::array<int64_t, 4> sizes_of(const Tensor& tensor) {
  return {tensor.dim(0), tensor.dim(1), tensor.dim(2), tensor.dim(3)};
}

Convolution describe_convolution(const Call& call, const Way& way) {
  Convolution convolution;
  convolution.pass = call.pass;
  convolution.dtype = way.dtype;
  convolution.channels_last = way.channels_last;
  convolution.tf32 = way.tf32;
  convolution.x = sizes_of(call.x);
  convolution.weight = sizes_of(call.weight);
  convolution.y = sizes_of(call.y);
  convolution.stride = call.params.stride;
  convolution.padding = call.params.padding;
  convolution.dilation = call.params.dilation;
  convolution.groups = call.params.groups;
  return convolution;
}

int64_t images_in_a_call(const Call& call) {
  const int64_t images = call.x.dim(0);
  const int64_t largest = std::max(call.x.numel(), call.y.numel()) / images;
  return std::clamp<int64_t>(kMaxElements / std::max<int64_t>(largest, 1), 1, images);
}

bool fits(const Tensor& tensor, const Way& way) {
  return tensor.dtype() == way.dtype &&
         (way.channels_last ? is_channels_last(tensor) : tensor.is_contiguous());
}

Tensor laid_out(const Tensor& tensor, const Way& way) {
  return way.channels_last ? to_channels_last(tensor, way.dtype) : to_row_major(tensor, way.dtype);
}

Destination destination(Tensor& target, const Way& way, bool accumulate) {
  Tensor substitute;
  const bool in_place = fits(target, way);
  if (!in_place) {
    substitute = way.channels_last
                     ? empty_channels_last(target.shape(), way.dtype, target.device())
                     : empty(target.shape(), {way.dtype, target.device(), Category::other});
  }
  return {target, in_place, substitute, accumulate};
}

void* image_at(const Tensor& images, int64_t image) {
  const int64_t offset = image * (images.numel() / images.dim(0));
  return static_cast<char*>(images.raw_data()) +
         static_cast<size_t>(offset) * size_of(images.dtype());
}

// The tensors are as `convolution` says, of any number of images. False if the library refuses.
bool run_dense(const Call& call, Convolution convolution) {
  const int64_t images = call.x.dim(0);
  const int64_t most = images_in_a_call(call);
  for (int64_t first = 0; first < images; first += most) {
    convolution.x[0] = convolution.y[0] = std::min(most, images - first);
    ConvMemory memory{image_at(call.x, first), call.weight.raw_data(), image_at(call.y, first),
                      call.accumulate};
    if (first > 0 && call.pass == ConvPass::weight_gradient) memory.accumulate = true;
    if (!convolve(call.result().device(), convolution, memory)) return false;
  }
  return true;
}

// False, and the result is as before, where the library cannot.
bool run_way(const Call& call, const Way& way) {
  Convolution convolution = describe_convolution(call, way);
  convolution.x[0] = convolution.y[0] = images_in_a_call(call);
  if (!has_algorithm(call.result().device(), convolution)) return false;
  Tensor target = call.result();
  Destination result = destination(target, way, call.accumulate);
  auto operand = [&](const Tensor& tensor) {
    return tensor.is_same(target) ? result.buffer() : laid_out(tensor, way);
  };
  const Tensor x = operand(call.x);
  const Tensor weight = operand(call.weight);
  const Tensor y = operand(call.y);
  const Call dense{call.pass, x, weight, y, call.params, result.kernel_accumulates()};
  if (!run_dense(dense, convolution)) return false;
  result.finish();
  return true;
}

void run(const Call& call) {
  const std::vector<Way> ways = ways_of(call);
  for (const Way& way : ways) {
    if (run_way(call, way)) return;
  }
  fail(op_of(call.pass), "cuDNN has no algorithm on ", call.result().device(), " for ",
       describe(describe_convolution(call, ways.back())));
}

void check_dtype(const char* op, const Tensor& tensor) {
  TENON_CHECK(is_floating(tensor.dtype()), op, "unsupported dtype: given ", tensor.dtype(),
              ", wanted one of f32, f64, f16, bf16");
}

bool is_empty(const Tensor& a, const Tensor& b) { return a.numel() == 0 || b.numel() == 0; }

void conv2d_cuda(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor& y,
                 const ConvParams& params, Activation activation) {
  check_dtype("conv2d", x);
  if (y.numel() == 0) return;
  if (is_empty(x, weight)) {
    fill(DeviceType::cuda, y, 0);
  } else {
    run({ConvPass::forward, x, weight, y, params});
  }
  add_bias_and_activate("conv2d", y, bias, 1, activation);
}

void conv2d_backward_input_cuda(const Tensor& dy, const Tensor& weight, Tensor& dx,
                                const ConvParams& params, bool accumulate) {
  check_dtype("conv2d_backward_input", dy);
  if (dx.numel() == 0) return;
  if (!is_empty(dy, weight)) {
    return run({ConvPass::input_gradient, dx, weight, dy, params, accumulate});
  }
  if (!accumulate) fill(DeviceType::cuda, dx, 0);
}

void conv2d_backward_weight_cuda(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor* dbias,
                                 const ConvParams& params, bool accumulate, bool accumulate_bias) {
  check_dtype("conv2d_backward_weight", x);
  if (dbias != nullptr && dbias->numel() > 0) {
    Tensor out = dbias->as_strided({1, dbias->dim(0), 1, 1}, {0, dbias->strides()[0], 0, 0});
    constexpr AxisMask kAllButChannels = 0b1101;
    sum(DeviceType::cuda, dy, out, kAllButChannels, 1.0, accumulate_bias);
  }
  if (dweight.numel() == 0) return;
  if (!is_empty(x, dy)) return run({ConvPass::weight_gradient, x, dweight, dy, params, accumulate});
  if (!accumulate) fill(DeviceType::cuda, dweight, 0);
}

[[maybe_unused]] const bool registered =
    conv2d.set(DeviceType::cuda, conv2d_cuda) &&
    conv2d_backward_input.set(DeviceType::cuda, conv2d_backward_input_cuda) &&
    conv2d_backward_weight.set(DeviceType::cuda, conv2d_backward_weight_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
