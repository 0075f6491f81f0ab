// Our side of bench_train: one of the fixed models, trained on fixed batches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenon/optim/optimizer.h"
#include "tenon/tools/step_record.h"
#include "tenon/tools/trainable.h"

namespace tenon::tools {

// What a model is trained with.
struct BenchRecipe {
  std::string model;
  int64_t batch;   // samples per rank
  int64_t tokens;  // of a sample; 0: it is an image
  std::string optimizer;
  double lr;
};
// Of one of bench_models(), for so many ranks.
BenchRecipe bench_recipe(const std::string& model, int ranks);
const std::vector<std::string>& bench_models();

// Initial weights, the same on every rank, and this rank's batches.
struct BenchTensors {
  std::vector<NamedTensor> weights;
  std::vector<Tensor> inputs;  // images (N, 1, 28, 28) or tokens (B, T)
  std::vector<Tensor> targets;

  void move_batches(Device device);
};
// Makes them, writes them to the file `path`, for the peer, and reads them back, so that nothing
// of their making stays in memory.
BenchTensors make_bench_tensors(const BenchRecipe& recipe, int rank, const std::string& path);

class TrainingBench {
 public:
  // `dtype`: f32 or bf16.
  TrainingBench(const BenchRecipe& recipe, const std::string& dtype, const BenchTensors& tensors,
                const Parallelism& parallelism);

  // The loss of the last of `steps` steps without dropout from the initial weights, which are
  // there again afterwards.
  double check(int64_t steps);
  // Milliseconds per step.
  double run(int64_t steps);
  // Minor page faults per step of the last run.
  double page_faults() const { return page_faults_; }
  // Mean milliseconds per step of all runs.
  double phase_ms(Phase phase) const { return clock_.ms(phase) / static_cast<double>(steps_); }

 private:
  void reset();
  Tensor step(PhaseClock& clock);  // the loss

  const BenchRecipe recipe_;
  const BenchTensors& tensors_;
  std::unique_ptr<Trainable> model_;
  std::unique_ptr<Optimizer> optimizer_;
  PhaseClock clock_;
  int64_t steps_ = 0;  // timed so far
  double page_faults_ = 0;
  size_t next_ = 0;  // batch
};

}  // namespace tenon::tools
