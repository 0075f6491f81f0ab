// Checkpoints on disk: FOLDER/step-000123/ holds model.safetensors, optimizer.safetensors and
// training.json, and FOLDER/latest names the newest. A checkpoint appears whole or not at all,
// also when the process is killed while it writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/nn/module.h"
#include "tenon/optim/optimizer.h"
#include "tenon/tools/rank_random.h"

namespace tenon::tools {

// Where a run stands.
struct TrainingState {
  int64_t step = 0;     // steps done
  int64_t epoch = 0;    // of the next step, from 0
  int64_t samples = 0;  // that all ranks have used of this epoch
  uint64_t seed = 0;    // of the order of samples
  std::string model;
  std::string optimizer;
  std::string config = "{}";       // a JSON object: what using the model needs besides
  std::vector<RankRandom> random;  // by rank
};

// Called by one rank. Returns the checkpoint's own folder.
std::string save_checkpoint(const std::string& folder, const TrainingState& state,
                            const Module& model, const Optimizer& optimizer);

// The checkpoint that `path` means: `path` itself or, if it holds checkpoints, the latest.
std::string find_checkpoint(const std::string& path);
// Errors (bad_data) name the file and, where there is one, the tensor.
TrainingState load_training_state(const std::string& checkpoint);
void load_weights(const std::string& checkpoint, const Module& model, Optimizer& optimizer);

}  // namespace tenon::tools
