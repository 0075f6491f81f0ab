#include "tenon/tools/image_task.h"

#include <cstdio>
#include <utility>

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

HeldOut ImageTask::held_out(ProcessGroup group, int64_t batch) const {
  DistributedSampler sampler(
      test_.size(),
      {.batch = batch, .rank = group.rank(), .ranks = group.size(), .shuffle = false});
  const int64_t steps = sampler.steps_per_epoch();
  return {steps, [this, sampler]() mutable -> TaskBatch {
            const SamplerStep step = sampler.next();
            if (step.local() == 0) return {};
            const ImageBatch images = test_.batch(step.samples, format_);
            return {images.images, images.targets};
          }};
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
