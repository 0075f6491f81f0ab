// A training step leaves the host free: no op waits for the device, and none reads from it.
#include <catch2/catch.hpp>

#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/kernels/copy.h"
#include "tenon/nn/conv.h"
#include "tenon/nn/dropout.h"
#include "tenon/nn/embedding.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/norm.h"
#include "tenon/nn/pooling.h"
#include "tenon/optim/adadelta.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/clip.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/support/device_pair.h"

namespace tenon {
namespace {

using testing::kCuda;

// The CUDA device while it lives, with its waits counted.
class CountingRuntime final : public Runtime {
 public:
  CountingRuntime() : device_(runtime(DeviceType::cuda)) { set_runtime(DeviceType::cuda, this); }
  ~CountingRuntime() override { set_runtime(DeviceType::cuda, &device_); }

  void copy(void* to, const void* from, size_t bytes, Stream stream) override {
    ++waits;  // pageable memory on either side
    device_.copy(to, from, bytes, stream);
  }
  void synchronize(const StreamEvent& event) override {
    ++waits;
    device_.synchronize(event);
  }
  void synchronize(Stream stream) override {
    ++waits;
    device_.synchronize(stream);
  }

  void* allocate(int index, size_t bytes) override { return device_.allocate(index, bytes); }
  void deallocate(int index, void* data, size_t bytes) override {
    device_.deallocate(index, data, bytes);
  }
  std::string memory_report(int index) override { return device_.memory_report(index); }
  void mark_allocated(void* data, size_t bytes) override { device_.mark_allocated(data, bytes); }
  void mark_freed(void* data, size_t bytes) override { device_.mark_freed(data, bytes); }
  void copy_async(void* to, const void* from, size_t bytes, Stream stream) override {
    device_.copy_async(to, from, bytes, stream);
  }
  void zero(void* data, size_t bytes, Stream stream) override { device_.zero(data, bytes, stream); }
  void* allocate_pinned(size_t bytes) override { return device_.allocate_pinned(bytes); }
  void deallocate_pinned(void* data, size_t bytes) override {
    device_.deallocate_pinned(data, bytes);
  }
  Stream create_stream(int index, StreamPriority priority) override {
    return device_.create_stream(index, priority);
  }
  StreamEvent record_event(Stream stream) override { return device_.record_event(stream); }
  StreamEvent record_timed_event(Stream stream) override {
    return device_.record_timed_event(stream);
  }
  int64_t elapsed_ns(const StreamEvent& from, const StreamEvent& to) override {
    return device_.elapsed_ns(from, to);
  }
  void wait_event(Stream stream, const StreamEvent& event) override {
    device_.wait_event(stream, event);
  }
  int device_count() const override { return device_.device_count(); }
  std::string describe(int index) override { return device_.describe(index); }

  int waits = 0;

 private:
  Runtime& device_;
};

struct Everything : Module {
  Child<nn::Embedding> embedding{this, "embedding", 10, 16};
  Child<nn::LayerNorm> layer_norm{this, "layer_norm", 16};
  Child<nn::Conv2d> conv{this, "conv", 1, 4, 3};
  Child<nn::BatchNorm2d> batch_norm{this, "batch_norm", 4};
  Child<nn::MaxPool2d> pool{this, "pool", 2};
  Child<nn::Dropout> dropout{this, "dropout", 0.5};
  Child<nn::Linear> fc{this, "fc", 4, 3};
  Tensor forward(const Tensor& ids) {  // (N, 16)
    Tensor x = reshape(layer_norm(embedding(ids)), {ids.dim(0), 1, 16, 16});
    x = pool(relu(batch_norm(conv(x))));
    return fc(dropout(mean(x, {2, 3})));
  }
};

TEST_CASE("cuda: no op of a training step waits for the device") {
  Everything model;
  const Tensor ids = copied_to(full({4, 16}, 3, {DType::i64, kCpu}), kCuda);
  const Tensor targets = copied_to(full({4}, 2, {DType::i64, kCpu}), kCuda);
  AdamW adamw(model.parameters());
  Sgd sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Adadelta adadelta(model.parameters());
  const auto step = [&] {
    model.zero_grad();
    const Tensor logits = model.forward(ids);
    const Tensor loss = cross_entropy(logits, targets, {.label_smoothing = 0.1}) +
                        nll_loss(log_softmax(logits), targets) + mse_loss(logits, softmax(logits));
    loss.backward();
    adamw.step();
    sgd.step();
    adadelta.step();
    return loss;
  };
  step();  // handles, workspaces and optimizer state are made once
  CountingRuntime counting;
  const Tensor loss = step();
  CHECK(counting.waits == 0);
  CHECK(loss.item<double>() > 0);
  CHECK(counting.waits == 1);
}

}  // namespace
}  // namespace tenon
