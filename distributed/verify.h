// Checks that all ranks hold the same model before anything depends on it.
#pragma once

#include <string>
#include <vector>

#include "tenon/distributed/comm/process_group.h"

namespace tenon {

// Collective. `lines` describe this rank's model, one property a line. If some rank's lines differ
// from rank 0's, every rank throws: the ranks that differ an Error naming the first difference, the
// others one (peer_lost) that names the first such rank.
void verify_same_on_all_ranks(const char* op, ProcessGroup group,
                              const std::vector<std::string>& lines);

}  // namespace tenon
