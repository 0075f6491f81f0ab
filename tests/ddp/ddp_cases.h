// DDP behaviour that holds on any group, whether its ranks are threads or processes. Each case
// throws what is wrong.
#pragma once

#include <string>
#include <vector>

#include "tenon/distributed/comm/process_group.h"
#include "tenon/distributed/ddp/ddp.h"
#include "tenon/nn/linear.h"

namespace tenon::testing {

// A small model of odd sizes.
struct SmallMlp : Module {
  Child<nn::Linear> fc1{this, "fc1", 7, 15};
  Child<nn::Linear> fc2{this, "fc2", 15, 17};
  Child<nn::Linear> fc3{this, "fc3", 17, 5};
  Tensor forward(const Tensor& x);
};

struct TrainConfig {
  std::string optimizer = "sgd";  // sgd, adam, adamw, adadelta
  DType dtype = DType::f64;
  int steps = 20;
  int64_t batch = 6;    // global batch of a step, split as evenly as possible
  int accumulate = 1;   // backwards per step; only the last synchronizes
  bool uneven = false;  // every third step has one sample less
  DdpOptions ddp = {};
};

// Trains SmallMlp on the samples of this rank and returns all parameters, one after another. With a
// group of one this is the reference on the joined batch.
std::vector<double> train_small_mlp(ProcessGroup group, const TrainConfig& config);

// max |a - b| / max(1, max |b|).
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

// N ranks are one rank with the joined batch: every optimizer in f64, SGD and Adadelta in f32, with
// and without accumulation, even and uneven batches.
void check_theorem(ProcessGroup group);
// Delays and bucket caps change no bit.
void check_bits(ProcessGroup group);
// Collectives and bytes of a step, without and with accumulation.
void check_traffic(ProcessGroup group);
// Parameters, gradients and optimizer state by category.
void check_memory(ProcessGroup group);
// A model that differs on rank 1 is an error on every rank that names the first difference.
void check_different_models(ProcessGroup group);

}  // namespace tenon::testing
