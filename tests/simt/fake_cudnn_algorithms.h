// The algorithms of the emulated cuDNN.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "tenon/tests/simt/fake_cudnn.h"

namespace simt::cudnn {

struct Algorithm {
  int number;  // of the pass's own enumeration
  size_t workspace;
  bool deterministic;
  bool supported = true;
};

cudnnStatus_t check(const Problem& problem);
// All that a heuristic lists, the fastest first.
std::vector<Algorithm> algorithms(const Problem& problem);
// The algorithm if it can compute the problem.
cudnnStatus_t find(const Problem& problem, int number, Algorithm& found);
cudnnStatus_t run(const Problem& problem, int number, const Memory& memory, void* workspace,
                  size_t bytes, cudaStream_t stream);

}  // namespace simt::cudnn
