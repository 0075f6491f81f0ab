// Ranks as threads of one process: every behaviour of the distributed layer can be tested in one
// process, under the sanitizers too.
#pragma once

#include <functional>

#include "tenon/distributed/comm/process_group.h"

namespace tenon {

struct RankOptions {
  DelayFunction delay_us = nullptr;  // in front of collectives
  uint64_t seed = 0;                 // of each rank's RankContext
};

// Runs `body` on `ranks` threads, each with its own RankContext (one thread for kernels) and a
// group of them all. Where the caller's default device is a CUDA one, rank r's is number r.
// Collectives are a rendezvous in call order. The first failure on any rank aborts the group and is
// thrown again as an Error with "rank R: " in front.
void run_ranks(int ranks, const std::function<void(ProcessGroup)>& body,
               const RankOptions& options = {});

}  // namespace tenon
