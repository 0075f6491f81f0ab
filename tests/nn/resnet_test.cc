// ResNet-18 against torch's, by the file of make_resnet_references.py.
#include "tenon/nn/resnet.h"

#include <catch2/catch.hpp>
#include <map>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/loss.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/safetensors.h"
#include "tenon/nn/state.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using Catch::Contains;
using nn::ResNet18;

using Named = std::map<std::string, Tensor>;

Named reference() {
  Named result;
  for (const auto& [name, tensor] :
       load_safetensors("tests/references/resnet.safetensors").tensors) {
    result.emplace(name, tensor);
  }
  return result;
}

Tensor in_dtype(const Tensor& x, DType dtype) {
  return from_vector(x.to_vector(), x.shape(), {.dtype = dtype});
}

// The weights of the file; running statistics as they are.
void load_weights(const ResNet18& model, const Named& from) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : state_dict(model)) {
    CAPTURE(name);
    REQUIRE(from.contains(name));
    const bool is_statistic = name.find(".running_") != std::string::npos;
    state.push_back({name, is_statistic ? tensor : in_dtype(from.at(name), tensor.dtype())});
  }
  load_state_dict(model, state);
}

void check_reference(DType dtype, double tolerance) {
  const DefaultDType scope(dtype);
  const Named wanted = reference();
  ResNet18 model({.classes = 5, .width = 2});
  load_weights(model, wanted);
  const auto error = [&](const Tensor& got, const std::string& name) {
    CHECK(got.shape() == wanted.at(name).shape());
    return testing::max_error(got.to_vector(), wanted.at(name).to_vector());
  };
  const Tensor images = in_dtype(wanted.at("reference.images"), dtype);
  const Tensor targets = in_dtype(wanted.at("reference.targets"), DType::i64);
  const Tensor logits = model.forward(images);
  CHECK(error(logits, "reference.logits") < tolerance);
  const Tensor loss = cross_entropy(logits, targets);
  CHECK(error(loss, "reference.loss") < tolerance);
  loss.backward();
  size_t compared = 0;
  for (const auto& [name, parameter] : model.parameters()) {
    if (!wanted.contains("grad." + name)) continue;
    CAPTURE(name);
    CHECK(error(parameter.grad(), "grad." + name) < tolerance);
    ++compared;
  }
  CHECK(compared == 9);
  for (const NamedBuffer& buffer : model.buffers()) {
    CAPTURE(buffer.name);
    CHECK(error(buffer.tensor, buffer.name) < tolerance);
  }
  model.eval();
  const NoGrad no_grad;
  CHECK(error(model.forward(images), "reference.eval_logits") < tolerance);
}

TEST_CASE("ResNet-18 computes what torch does") {
  check_reference(DType::f64, 1e-11);
  check_reference(DType::f32, 1e-5);
}

TEST_CASE("ResNet-18 has the parameters and shapes of the published model", "[host]") {
  ResNet18 model;
  CHECK(model.parameter_count() == 11173962);
  CHECK(model.parameters().front().name == "conv1.weight");
  CHECK(model.parameters().back().name == "fc.bias");
  CHECK(model.layer4[1]->conv2->weight.shape() == Shape{512, 512, 3, 3});
  // Kaiming's deviation by the outputs: sqrt(2 / (512 * 9)).
  double squares = 0;
  for (const double value : model.layer4[1]->conv2->weight.to_vector()) squares += value * value;
  CHECK(squares / (512 * 512 * 9) == Approx(2.0 / (512 * 9)).epsilon(0.01));
}

TEST_CASE("ResNet-18 takes images of any size and channels") {
  ResNet18 model({.classes = 7, .channels = 1, .width = 2});
  CHECK(model.forward(ones({3, 1, 32, 32})).shape() == Shape{3, 7});
  CHECK(model.forward(ones({3, 1, 9, 5})).shape() == Shape{3, 7});
  CHECK_THROWS_WITH(
      model.forward(ones({3, 3, 32, 32})),
      Contains("[resnet] wrong images: given shape (3, 3, 32, 32), wanted (N, 1, H, W)"));
  CHECK_THROWS_WITH(model.forward(ones({1, 32, 32})), Contains("[resnet] wrong images"));
  CHECK_THROWS_WITH(ResNet18({.width = 0}), Contains("[resnet] bad width: given 0"));
  CHECK_THROWS_WITH(ResNet18({.classes = 0}), Contains("[resnet] bad number of classes"));
}

TEST_CASE("ResNet-18 learns a small batch, in bf16 too") {
  for (const bool half : {false, true}) {
    seed(5);
    ResNet18 model({.classes = 4, .width = 4});
    if (half) model.set_compute_dtype(DType::bf16);
    Sgd optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.9});
    const Tensor images = testing::random_tensor({8, 3, 16, 16});
    const Tensor targets = from_data(std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3}, {8});
    double first = 0, last = 0;
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(call_module(model, images), targets);
      last = loss.item<double>();
      if (step == 0) first = last;
      loss.backward();
      optimizer.step();
    }
    CAPTURE(half, first, last);
    CHECK(last < 0.5 * first);
  }
}

}  // namespace
}  // namespace tenon
