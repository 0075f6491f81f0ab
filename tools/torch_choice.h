// Finds the setting in which PyTorch is fastest, so that the comparison is with its best.
#pragma once

#include <memory>
#include <string>

#include "tenon/tools/shared_folder.h"
#include "tenon/tools/torch_peer.h"
#include "tenon/tools/training_bench.h"

namespace tenon::tools {

struct TorchRequest {
  std::string python;
  BenchRecipe recipe;
  std::string dtype;
  std::string device;  // cpu or cuda
  int threads;
  int64_t warmup;  // steps
  int64_t steps;   // of a run
};

// The peer with the best of: allocator of the C library as it is or tuned, and for the CNN both
// layouts of images. It reads tensors.RANK in `folder`. `choice` becomes what was chosen.
// Collective.
std::unique_ptr<TorchPeer> best_torch_peer(const TorchRequest& request, ProcessGroup group,
                                           const SharedFolder& folder, Json& choice);

}  // namespace tenon::tools
