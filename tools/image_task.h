// Classifying images: batches of a data set in memory, and accuracy on its held-out part.
#pragma once

#include <optional>
#include <string>

#include "tenon/nn/data/image_dataset.h"
#include "tenon/tools/training_task.h"

namespace tenon::tools {

class ImageTask : public TrainingTask {
 public:
  // Pixels are given in `dtype`, f32 or f64.
  ImageTask(ImageDataset train, ImageDataset test, DType dtype);

  void start(const SamplerOptions& options) override { sampler_.emplace(train_.size(), options); }
  int64_t steps_per_epoch() const override { return sampler_->steps_per_epoch(); }
  SamplerPosition position() const override { return sampler_->position(); }
  void set_position(SamplerPosition position) override { sampler_->set_position(position); }
  TaskStep next() override;
  HeldOut held_out(ProcessGroup group, int64_t batch) const override;
  std::string description() const override;
  std::string result(const Evaluation& evaluation) const override;

 private:
  const ImageDataset train_;
  const ImageDataset test_;
  const ImageFormat format_;
  std::optional<DistributedSampler> sampler_;
};

}  // namespace tenon::tools
