// The peer-memory engine: collectives of ranks that see each other's memory. Between two barriers
// of all ranks each does its share, reading and writing the peers' buffers directly.
#pragma once

#include <cstddef>
#include <vector>

#include "tenon/distributed/comm/signature.h"

namespace tenon::comm {

struct PeerOperation {
  Signature what;
  int rank = 0;
  // Every rank's buffers as this rank sees them; null where it cannot reach them. Needed are the
  // own ones and: all_reduce: both, which are the same; reduce_scatter: inputs; broadcast: outputs;
  // all_gather and all_to_all: all of one kind.
  std::vector<const std::byte*> inputs = {};
  std::vector<std::byte*> outputs = {};
  int divisor = 1;  // of a mean
};

// This rank's share. The ranks must have met before and must meet after it.
void run_share(const PeerOperation& operation);

// Part `index` of `count` elements cut into `parts`, each but the last ones a whole number of cache
// lines.
struct Range {
  int64_t begin = 0;
  int64_t size = 0;
};
Range part_of(int64_t count, int parts, int index, DType dtype);

// Copies unless both are the same memory, which ranks may share.
void copy_memory(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace tenon::comm
