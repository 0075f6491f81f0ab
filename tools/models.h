// The fixed models of train_mnist and bench_train. They know nothing of ranks, wrappers or
// optimizers.
#pragma once

#include <string>

#include "tenon/autograd/ops.h"
#include "tenon/nn/conv.h"
#include "tenon/nn/dropout.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/pooling.h"

namespace tenon::tools {

struct CnnOptions {
  double dropout_features = 0.25;
  double dropout_hidden = 0.5;
};

// The well-known example network for MNIST: images (N, 1, 28, 28) to logits (N, 10).
struct Cnn : Module {
  explicit Cnn(CnnOptions options = {})
      : drop1(this, "drop1", options.dropout_features),
        drop2(this, "drop2", options.dropout_hidden) {}

  Child<nn::Conv2d> conv1{this, "conv1", 1, 32, 3, {.activation = Activation::relu}};
  Child<nn::Conv2d> conv2{this, "conv2", 32, 64, 3, {.activation = Activation::relu}};
  Child<nn::MaxPool2d> pool{this, "pool", 2};
  Child<nn::Dropout> drop1;
  Child<nn::Linear> fc1{this, "fc1", 9216, 128, {.activation = Activation::relu}};
  Child<nn::Dropout> drop2;
  Child<nn::Linear> fc2{this, "fc2", 128, 10};

  Tensor forward(const Tensor& images) {
    const Tensor features = drop1(pool(conv2(conv1(images))));
    return fc2(drop2(fc1(flatten(features, 1))));
  }
};

struct MlpOptions {
  double dropout = 0;  // after each hidden layer
};

// Images (N, 1, 28, 28) to logits (N, 10) through two hidden layers of 1024.
struct Mlp : Module {
  explicit Mlp(MlpOptions options = {}) : drop(this, "drop", options.dropout) {}

  Child<nn::Linear> fc1{this, "fc1", 784, 1024, {.activation = Activation::relu}};
  Child<nn::Linear> fc2{this, "fc2", 1024, 1024, {.activation = Activation::relu}};
  Child<nn::Dropout> drop;
  Child<nn::Linear> fc3{this, "fc3", 1024, 10};

  Tensor forward(const Tensor& images) { return fc3(drop(fc2(drop(fc1(flatten(images, 1)))))); }
};

}  // namespace tenon::tools
