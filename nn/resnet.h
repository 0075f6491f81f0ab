// ResNet-18 for small images: the first convolution keeps their size and no pooling follows it (He
// et al. 2016). Parameters have torchvision's names.
#pragma once

#include "tenon/nn/conv.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/norm.h"
#include "tenon/nn/sequential.h"

namespace tenon::nn {

// relu(bn2(conv2(relu(bn1(conv1(x))))) + x), x brought to the result's shape by `downsample` where
// it has another one: x (N, in, H, W), result (N, out, ceil(H / stride), ceil(W / stride)).
class BasicBlock : public Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride);
  Tensor forward(const Tensor& x);

  Child<Conv2d> conv1;
  Child<BatchNorm2d> bn1;
  Child<Conv2d> conv2;
  Child<BatchNorm2d> bn2;
  Child<Sequential> downsample;  // empty, or a convolution and its normalisation
};

struct ResNetOptions {
  int64_t classes = 10;
  int64_t channels = 3;  // of the images
  int64_t width = 64;    // channels of the first stage; each further one has twice as many
};

// Four stages of two blocks, each but the first halving height and width: images (N, channels, H,
// W), for example (N, 3, 32, 32), give logits (N, classes). Weights of convolutions begin with
// Kaiming's normal values by their outputs.
class ResNet18 : public Module {
 public:
  using Options = ResNetOptions;
  explicit ResNet18(const ResNetOptions& options = {});
  Tensor forward(const Tensor& images);
  const ResNetOptions& options() const { return options_; }

 private:
  const ResNetOptions options_;

 public:
  Child<Conv2d> conv1;
  Child<BatchNorm2d> bn1;
  ChildList<BasicBlock> layer1, layer2, layer3, layer4;
  Child<Linear> fc;
};

}  // namespace tenon::nn
