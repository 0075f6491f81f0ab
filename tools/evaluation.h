// How good a classifier is on a held-out set.
#pragma once

#include <cstdint>

#include "tenon/nn/data/image_dataset.h"
#include "tenon/tools/trainable.h"

namespace tenon::tools {

struct Evaluation {
  double loss = 0;  // mean over all samples
  int64_t correct = 0;
  int64_t total = 0;
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(total); }
};

// Over all of `data`, each sample once, split over the ranks. Collective.
Evaluation evaluate(Trainable& model, const ImageDataset& data, const ImageFormat& format,
                    ProcessGroup group, int64_t batch);

// Rows whose largest logit is that of their target.
int64_t count_correct(const Tensor& logits, const Tensor& targets);

}  // namespace tenon::tools
