// What a training program trains on: the samples of each step, and how good a model is on those
// that were held out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tenon/nn/data/sampler.h"
#include "tenon/tools/run_log.h"
#include "tenon/tools/trainable.h"

namespace tenon::tools {

// Of the whole held-out set.
struct Evaluation {
  double loss = 0;      // mean over all targets
  int64_t correct = 0;  // targets with the largest logit; only of tasks that count them
  int64_t total = 0;    // targets
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(total); }
};

// On the CPU.
struct TaskBatch {
  Tensor inputs;
  Tensor targets;
};

// This rank's share of a step.
struct TaskStep {
  SamplerPosition position;
  int64_t global = 0;                                          // samples of all ranks
  int64_t local = 0;                                           // of this rank
  std::function<TaskBatch(int64_t begin, int64_t end)> batch;  // of local samples [begin, end)
};

// This rank's share of the held-out samples.
struct HeldOut {
  int64_t steps = 0;
  std::function<TaskBatch()> next;  // of each step in turn; no tensors where there is no sample
};

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  // Called once, before everything else.
  virtual void start(const SamplerOptions& options) = 0;
  virtual int64_t steps_per_epoch() const = 0;
  // Of the next step.
  virtual SamplerPosition position() const = 0;
  virtual void set_position(SamplerPosition position) = 0;
  virtual TaskStep next() = 0;
  // Each held-out target once, split over the ranks, `batch` samples at a time.
  virtual HeldOut held_out(ProcessGroup group, int64_t batch) const = 0;

  // Targets that a sample has: 1, or the tokens of a sequence.
  virtual int64_t targets_per_sample() const { return 1; }
  // Whether a sample is a text, of targets_per_sample() tokens: speed is then in tokens, and
  // accuracy is not counted.
  virtual bool is_text() const { return false; }
  // Floating-point operations of forward and backward for one sample; 0: not known.
  virtual double flops_per_sample() const { return 0; }
  // What the program says of its data at the start.
  virtual std::string description() const = 0;
  // The last line of the run.
  virtual std::string result(const Evaluation& evaluation) const = 0;
  // What a checkpoint must agree with, and what is needed to use its model.
  virtual Json config() const { return Json::object(); }
};

// Rows of logits (N, C) whose largest element is that of their target.
int64_t count_correct(const Tensor& logits, const Tensor& targets);

// Of the whole held-out set, `batch` samples at a time. Collective.
Evaluation evaluate(const TrainingTask& task, Trainable& model, ProcessGroup group, int64_t batch);

}  // namespace tenon::tools
