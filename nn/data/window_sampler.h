// Which windows of a token sequence each rank takes in each step. What samples a step uses does not
// depend on the number of ranks: step k of N ranks with batch B has those of one rank with batch
// N B, each rank a run of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tenon/nn/data/token_dataset.h"

namespace tenon {

struct WindowOptions {
  int64_t batch = 1;   // windows per rank and step
  int64_t length = 1;  // tokens of a window: the context
  int rank = 0;
  int ranks = 1;
  uint64_t seed = 0;  // of random windows
};

struct WindowStep {
  std::vector<int64_t> offsets;  // where this rank's windows begin, for TokenDataset::batch
  int64_t length = 0;            // of each of them
  int64_t global = 0;            // windows of all ranks in this step
  int64_t position = 0;          // number of the first window of all ranks
  int64_t local() const { return static_cast<int64_t>(offsets.size()); }
};

// Windows for training. An epoch's windows lie side by side from a random place near the front on,
// so that no target is used twice in it, and come in a random order; the next epoch's begin at
// another place. Which one is window i of a run depends on seed and i alone.
class WindowSampler {
 public:
  // Data that is not longer than a window is a bad_data Error.
  WindowSampler(const TokenDataset& data, WindowOptions options);

  WindowStep next();
  // How many windows all ranks have used. Saved and restored for an exact resume, which may go on
  // with another batch or number of ranks.
  int64_t position() const { return position_; }
  void set_position(int64_t position);

  // Steps in which as many targets are used as the data has.
  int64_t steps_per_epoch() const;

 private:
  int64_t offset(int64_t number) const;

  int64_t targets_;
  WindowOptions options_;
  int64_t windows_;  // of an epoch
  int64_t position_ = 0;
};

// Windows one after another, for evaluation: together their targets are each token but the first,
// once. The last window may be shorter; it then is a step of its own, on rank 0. Every rank has the
// same number of steps, in some of which it may have no window.
class SequentialWindows {
 public:
  // Data without a target is a bad_data Error; data shorter than a window is not.
  SequentialWindows(const TokenDataset& data, WindowOptions options);

  int64_t steps() const;
  WindowStep step(int64_t index) const;

 private:
  int64_t global_batch() const { return options_.batch * options_.ranks; }

  WindowOptions options_;
  int64_t full_;  // windows of the full length
  int64_t rest_;  // length of the one behind them; 0 if there is none
};

}  // namespace tenon
