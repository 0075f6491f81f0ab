#include "tenon/nn/resnet.h"

#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/nn/init.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {
namespace {

Conv2dOptions convolution(int64_t stride, int64_t padding) {
  return {.stride = stride, .padding = padding, .bias = false};
}

void initialize(Module& module) {
  for (const auto& [name, parameter] : module.parameters()) {
    if (parameter.ndim() == 4) init::kaiming_normal_(parameter, 0, init::Fan::out);
  }
}

const ResNetOptions& checked(const ResNetOptions& options) {
  check_positive("resnet", "number of classes", options.classes);
  check_positive("resnet", "number of channels", options.channels);
  check_positive("resnet", "width", options.width);
  return options;
}

void add_blocks(ChildList<BasicBlock>& stage, int64_t in, int64_t out, int64_t stride) {
  stage.emplace_back(in, out, stride);
  stage.emplace_back(out, out, int64_t{1});
}

}  // namespace

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride)
    : conv1(this, "conv1", in, out, 3, convolution(stride, 1)),
      bn1(this, "bn1", out),
      conv2(this, "conv2", out, out, 3, convolution(1, 1)),
      bn2(this, "bn2", out),
      downsample(this, "downsample") {
  if (stride == 1 && in == out) return;
  downsample->add<Conv2d>(in, out, 1, convolution(stride, 0)).add<BatchNorm2d>(out);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor residual = downsample->size() == 0 ? x : downsample(x);
  return relu(bn2(conv2(relu(bn1(conv1(x))))) + residual);
}

ResNet18::ResNet18(const ResNetOptions& options)
    : options_(checked(options)),
      conv1(this, "conv1", options.channels, options.width, 3, convolution(1, 1)),
      bn1(this, "bn1", options.width),
      layer1(this, "layer1"),
      layer2(this, "layer2"),
      layer3(this, "layer3"),
      layer4(this, "layer4"),
      fc(this, "fc", 8 * options.width, options.classes) {
  const int64_t width = options.width;
  add_blocks(layer1, width, width, 1);
  add_blocks(layer2, width, 2 * width, 2);
  add_blocks(layer3, 2 * width, 4 * width, 2);
  add_blocks(layer4, 4 * width, 8 * width, 2);
  initialize(*this);
}

Tensor ResNet18::forward(const Tensor& images) {
  TENON_CHECK(images.ndim() == 4 && images.dim(1) == options_.channels, "resnet",
              "wrong images: given shape ", images.shape(), ", wanted (N, ", options_.channels,
              ", H, W)");
  Tensor x = relu(bn1(conv1(images)));
  for (auto* stage : {&layer1, &layer2, &layer3, &layer4}) {
    for (Child<BasicBlock>& block : *stage) x = block(x);
  }
  return fc(mean(x, {2, 3}));
}

}  // namespace tenon::nn
