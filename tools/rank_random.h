// Saving and restoring the ranks' random numbers, for an exact resume.
#pragma once

#include <vector>

#include "tenon/core/random.h"
#include "tenon/distributed/comm/process_group.h"

namespace tenon::tools {

// Both generators of a rank.
struct RankRandom {
  PhiloxKey init;
  PhiloxKey dropout;
};

// Of all ranks. Collective.
std::vector<RankRandom> gather_random(ProcessGroup group);

// With as many ranks as before each goes on with its own numbers. With another number of them every
// rank goes on beyond what any has used.
void restore_random(const std::vector<RankRandom>& random);

}  // namespace tenon::tools
