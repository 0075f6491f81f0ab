// Threads of the programs' ranks.
#pragma once

#include "tenon/distributed/comm/world.h"

namespace tenon::tools {

// Sets this rank's threads, 0 for the world's own choice, and returns how many it has now. If the
// ranks of a node want more than its cores, rank 0 says on stderr what helps.
int use_threads(int threads, const World& world);

}  // namespace tenon::tools
