// The training loop: steps over the global batch, evaluation, log, progress and checkpoints, the
// same with any number of ranks and for any task.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tenon/distributed/comm/world.h"
#include "tenon/tools/checkpoint_dir.h"
#include "tenon/tools/step_record.h"
#include "tenon/tools/trainable.h"
#include "tenon/tools/training_options.h"
#include "tenon/tools/training_task.h"

namespace tenon::tools {

using ModelFactory = std::function<std::unique_ptr<Trainable>(const Parallelism&)>;

class Trainer {
 public:
  // Goes on from options.resume if that is given. `options` are resolved.
  Trainer(const World& world, const TrainingOptions& options, TrainingTask& task,
          const ModelFactory& make_model);
  Module& model() { return model_->module(); }
  // Trains to the end. Rank 0 prints; the last line is the task's result.
  void run();

 private:
  // A step whose loss is still on its way between the ranks.
  struct Pending {
    StepRecord record;
    DdpStats stats;
    Tensor totals;  // loss, correct, ranks asked to stop: sums over the ranks once `work` is done
    Work work;
  };

  void resume();
  void introduce();
  bool done() const { return step_ >= last_step_ || stopped_; }
  void train_step();
  void fail_if_asked() const;
  // Forward and backward over this rank's samples of the step; adds to loss and correct.
  void accumulate_gradients(const TaskStep& sample, PhaseClock& clock, double* totals);
  void update(StepRecord& record);
  void report_pending();
  void print_progress();
  void evaluate_if_due(bool epoch_ended);
  void evaluate();
  void save_if_due();
  TrainingState training_state();

  bool leader() const { return group_.rank() == 0; }
  void say(const std::string& text) const;

  const TrainingOptions options_;
  TrainingTask& task_;
  ProcessGroup group_;
  const Device device_;
  std::unique_ptr<Trainable> model_;
  std::unique_ptr<Optimizer> optimizer_;
  const int64_t last_step_;
  Schedule schedule_;
  RunLog log_;
  Progress progress_{0, 0};
  int64_t step_ = 0;      // steps done
  bool stopped_ = false;  // a rank was asked to; all ranks learn it after the same step
  std::optional<Pending> pending_;
  std::optional<Evaluation> evaluation_;  // of the current weights
};

}  // namespace tenon::tools
