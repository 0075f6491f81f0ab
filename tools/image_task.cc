#include "tenon/tools/image_task.h"

#include <cstdio>
#include <utility>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"

namespace tenon::tools {

ImageTask::ImageTask(ImageDataset train, ImageDataset test, DType dtype)
    : train_(std::move(train)), test_(std::move(test)), format_(train_.measured_format(dtype)) {}

TaskStep ImageTask::next() {
  SamplerStep step = sampler_->next();
  return {step.position, step.global, step.local(),
          [this, samples = std::move(step.samples)](int64_t begin, int64_t end) -> TaskBatch {
            const ImageBatch batch =
                train_.batch({samples.begin() + begin, samples.begin() + end}, format_);
            return {batch.images, batch.targets};
          }};
}

Evaluation ImageTask::evaluate(Trainable& model, ProcessGroup group, int64_t batch) {
  const NoGrad no_grad;
  model.module().eval();
  DistributedSampler sampler(
      test_.size(),
      {.batch = batch, .rank = group.rank(), .ranks = group.size(), .shuffle = false});
  double loss = 0;
  int64_t correct = 0, total = 0;
  for (int64_t i = 0; i < sampler.steps_per_epoch(); ++i) {
    const SamplerStep sample = sampler.next();
    if (sample.local() == 0) continue;
    const ImageBatch images = test_.batch(sample.samples, format_);
    const Tensor logits = model.forward_alone(to(images.images, default_device()));
    const Tensor targets = to(images.targets, default_device());
    loss += cross_entropy(logits, targets, {.divisor = 1}).item<double>();
    correct += count_correct(logits, images.targets);
    total += sample.local();
  }
  model.module().train();
  return join_evaluations(loss, correct, total, group);
}

std::string ImageTask::description() const { return str(train_.size(), " training images"); }

std::string ImageTask::result(const Evaluation& evaluation) const {
  char text[96];
  std::snprintf(text, sizeof text, "test accuracy %.4f (%lld/%lld)", evaluation.accuracy(),
                static_cast<long long>(evaluation.correct),
                static_cast<long long>(evaluation.total));
  return text;
}

}  // namespace tenon::tools
