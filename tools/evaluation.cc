#include "tenon/tools/evaluation.h"

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/nn/data/sampler.h"

namespace tenon::tools {

int64_t count_correct(const Tensor& logits, const Tensor& targets) {
  const NoGrad no_grad;
  const Tensor guesses = copied_to(argmax(logits.detach(), 1), kCpu);
  const int64_t* const guess = guesses.data<int64_t>();
  const int64_t* const target = targets.data<int64_t>();
  int64_t correct = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) correct += guess[i] == target[i];
  return correct;
}

Evaluation evaluate(Trainable& model, const ImageDataset& data, const ImageFormat& format,
                    ProcessGroup group, int64_t batch) {
  const NoGrad no_grad;
  model.module().eval();
  DistributedSampler sampler(
      data.size(), {.batch = batch, .rank = group.rank(), .ranks = group.size(), .shuffle = false});
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < sampler.steps_per_epoch(); ++i) {
    const SamplerStep sample = sampler.next();
    if (sample.local() == 0) continue;
    const ImageBatch images = data.batch(sample.samples, format);
    const Tensor logits = model.forward_alone(to(images.images, default_device()));
    const Tensor targets = to(images.targets, default_device());
    loss += cross_entropy(logits, targets, {.divisor = 1}).item<double>();
    correct += count_correct(logits, images.targets);
  }
  model.module().train();
  const Tensor sums =
      from_vector({loss, static_cast<double>(correct)}, {2},
                  {.dtype = DType::f64, .device = kCpu, .category = Category::other});
  group.all_reduce(sums, ReduceOp::sum, {.tag = "eval"}).wait();
  const double* const sum = sums.data<double>();
  return {sum[0] / static_cast<double>(data.size()), static_cast<int64_t>(sum[1]), data.size()};
}

}  // namespace tenon::tools
