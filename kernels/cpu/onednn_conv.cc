#include "tenon/kernels/cpu/onednn_conv.h"

#include "tenon/core/factory.h"
#include "tenon/kernels/cpu/onednn_support.h"

#ifdef TENON_USE_ONEDNN

namespace tenon::kernels::onednn {
namespace {

using Dims = dnnl::memory::dims;
using Format = dnnl::memory::format_tag;

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

Dims sizes_of(const Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

Desc image_desc(const Tensor& image) {
  return Desc(sizes_of(image), type_of(image.dtype()), Format::nhwc);
}

// Row-major, or with the layout left to oneDNN.
Desc weight_desc(const Tensor& weight, DType dtype, const ConvParams& params, bool any) {
  Dims sizes = sizes_of(weight);
  if (params.groups == 1) return Desc(sizes, type_of(dtype), any ? Format::any : Format::oihw);
  sizes[0] /= params.groups;
  sizes.insert(sizes.begin(), params.groups);
  return Desc(sizes, type_of(dtype), any ? Format::any : Format::goihw);
}

Desc vector_desc(const Tensor& vector) {
  return Desc(sizes_of(vector), type_of(vector.dtype()), Format::a);
}

struct Window {
  Dims stride;
  Dims dilation;  // oneDNN counts from 0
  Dims padding;
};
Window window_of(const ConvParams& params) {
  return {{params.stride[0], params.stride[1]},
          {params.dilation[0] - 1, params.dilation[1] - 1},
          {params.padding[0], params.padding[1]}};
}

dnnl::convolution_forward::primitive_desc forward_desc(const Tensor& x, const Tensor& weight,
                                                       const Tensor* bias, const Tensor& y,
                                                       const ConvParams& params) {
  const Window window = window_of(params);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_training, kAlgorithm, image_desc(x),
      weight_desc(weight, x.dtype(), params, true), bias != nullptr ? vector_desc(*bias) : Desc(),
      image_desc(y), window.stride, window.dilation, window.padding, window.padding);
  return {desc, attributes(), engine()};
}

// A convolution with its weights (or their gradient) in the layout that oneDNN chose, and the
// reorder from (or to) row-major; the reorder is undefined where both are the same.
struct Convolution {
  Executable convolution;
  Executable reorder;
  int64_t weight_bytes = 0;

  // Memory for the weights in oneDNN's layout, if they need any of their own.
  Tensor weight_buffer() const {
    if (!reorder.defined()) return Tensor();
    return empty({weight_bytes}, {DType::u8, kCpu, Category::other});
  }
  // The weights in oneDNN's layout.
  Tensor packed(const Tensor& weight) {
    const Tensor buffer = weight_buffer();
    if (!buffer.defined()) return weight;
    reorder.run({weight.raw_data(), buffer.raw_data()});
    return buffer;
  }
};

Convolution with_reordered_weights(Executable convolution, const Desc& plain, const Desc& chosen) {
  Convolution result{std::move(convolution), {}, static_cast<int64_t>(chosen.get_size())};
  if (plain != chosen) result.reorder = Executable::reorder(plain, chosen);
  return result;
}

Convolution make_forward(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor& y,
                         const ConvParams& params) {
  const auto desc = forward_desc(x, weight, bias, y, params);
  std::vector<Executable::Argument> arguments{{DNNL_ARG_SRC, desc.src_desc()},
                                              {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                              {DNNL_ARG_DST, desc.dst_desc()}};
  if (bias != nullptr) arguments.push_back({DNNL_ARG_BIAS, desc.bias_desc()});
  return with_reordered_weights(
      Executable(dnnl::convolution_forward(desc), arguments, desc.scratchpad_desc()),
      weight_desc(weight, weight.dtype(), params, false), desc.weights_desc());
}

Convolution make_backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                                const ConvParams& params) {
  const Window window = window_of(params);
  const dnnl::convolution_backward_data::desc operation(
      kAlgorithm, image_desc(dx), weight_desc(weight, dy.dtype(), params, true), image_desc(dy),
      window.stride, window.dilation, window.padding, window.padding);
  const dnnl::convolution_backward_data::primitive_desc desc(
      operation, attributes(), engine(), forward_desc(dx, weight, nullptr, dy, params));
  const std::vector<Executable::Argument> arguments{{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                                    {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                    {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}};
  return with_reordered_weights(
      Executable(dnnl::convolution_backward_data(desc), arguments, desc.scratchpad_desc()),
      weight_desc(weight, weight.dtype(), params, false), desc.weights_desc());
}

Convolution make_backward_weight(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                 const Tensor* dbias, const ConvParams& params, bool accumulate) {
  const Window window = window_of(params);
  const dnnl::convolution_backward_weights::desc operation(
      kAlgorithm, image_desc(x), weight_desc(dweight, DType::f32, params, true),
      dbias != nullptr ? vector_desc(*dbias) : Desc(), image_desc(dy), window.stride,
      window.dilation, window.padding, window.padding);
  const dnnl::convolution_backward_weights::primitive_desc desc(
      operation, attributes(), engine(), forward_desc(x, dweight, dbias, dy, params));
  std::vector<Executable::Argument> arguments{{DNNL_ARG_SRC, desc.src_desc()},
                                              {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                              {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}};
  if (dbias != nullptr) arguments.push_back({DNNL_ARG_DIFF_BIAS, desc.diff_bias_desc()});
  const Desc chosen = desc.diff_weights_desc();
  const Desc plain = weight_desc(dweight, DType::f32, params, false);
  Convolution result{
      Executable(dnnl::convolution_backward_weights(desc), arguments, desc.scratchpad_desc()),
      {},
      static_cast<int64_t>(chosen.get_size())};
  // The sum rides on the reorder, so that adding costs nothing extra.
  if (plain != chosen || accumulate) {
    result.reorder = Executable::reorder(chosen, plain, accumulate);
  }
  return result;
}

enum class Direction { forward, backward_input, backward_weight };

Key key_of(Direction direction, const Tensor& x, const Tensor& weight, const Tensor* bias,
           const Tensor& y, const ConvParams& params, bool accumulate, int threads) {
  Key key;
  key.add(direction, x.dtype(), bias != nullptr ? static_cast<int>(bias->dtype()) : -1, accumulate,
          threads, params.groups);
  for (const Tensor* tensor : {&x, &weight, &y}) {
    for (const int64_t size : tensor->shape()) key.add(size);
  }
  for (const auto* pair : {&params.stride, &params.padding, &params.dilation}) {
    key.add((*pair)[0], (*pair)[1]);
  }
  return key;
}

double flops_of(const Tensor& weight, const Tensor& y) {
  return 2.0 * static_cast<double>(weight.numel()) *
         static_cast<double>(y.dim(0) * y.dim(2) * y.dim(3));
}

Cache<Convolution>& cache() {
  thread_local Cache<Convolution> cache;
  return cache;
}

}  // namespace

void conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor& y,
            const ConvParams& params) {
  with_errors("conv2d", [&] {
    const ThreadScope scope(flops_of(weight, y));
    const Key key = key_of(Direction::forward, x, weight, bias, y, params, false, scope.threads());
    Convolution& entry = cache().get(key, [&] { return make_forward(x, weight, bias, y, params); });
    const Tensor packed = entry.packed(weight);
    if (bias != nullptr) {
      entry.convolution.run({x.raw_data(), packed.raw_data(), y.raw_data(), bias->raw_data()});
    } else {
      entry.convolution.run({x.raw_data(), packed.raw_data(), y.raw_data()});
    }
  });
}

void conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                           const ConvParams& params) {
  with_errors("conv2d_backward_input", [&] {
    const ThreadScope scope(flops_of(weight, dy));
    const Key key =
        key_of(Direction::backward_input, dx, weight, nullptr, dy, params, false, scope.threads());
    Convolution& entry =
        cache().get(key, [&] { return make_backward_input(dy, weight, dx, params); });
    const Tensor packed = entry.packed(weight);
    entry.convolution.run({dy.raw_data(), packed.raw_data(), dx.raw_data()});
  });
}

void conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                            const Tensor* dbias, const ConvParams& params, bool accumulate) {
  with_errors("conv2d_backward_weight", [&] {
    const ThreadScope scope(flops_of(dweight, dy));
    const Key key = key_of(Direction::backward_weight, x, dweight, dbias, dy, params, accumulate,
                           scope.threads());
    Convolution& entry = cache().get(
        key, [&] { return make_backward_weight(x, dy, dweight, dbias, params, accumulate); });
    const Tensor buffer = entry.weight_buffer();
    void* const result = buffer.defined() ? buffer.raw_data() : dweight.raw_data();
    if (dbias != nullptr) {
      entry.convolution.run({x.raw_data(), dy.raw_data(), result, dbias->raw_data()});
    } else {
      entry.convolution.run({x.raw_data(), dy.raw_data(), result});
    }
    if (buffer.defined()) entry.reorder.run({result, dweight.raw_data()});
  });
}

}  // namespace tenon::kernels::onednn

#endif
