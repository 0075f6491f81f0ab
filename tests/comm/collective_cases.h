// What collectives promise on any group, whether its ranks are threads or processes, in shared
// memory or not. Each case throws what is wrong.
#pragma once

#include "tenon/distributed/comm/process_group.h"

namespace tenon::testing {

// Every reduction and dtype, odd sizes and size 0, in windows and in ordinary memory.
void check_reductions(ProcessGroup group);
// The other collectives for every dtype; in place too.
void check_moves(ProcessGroup group);
// Messages between two ranks, received in any order with collectives in between.
void check_messages(ProcessGroup group);
// The bits are those of the sum in rank order, rounded once, for any split into buckets, any memory
// and any delays. With several ranks per node and more than one node, node sums come first.
void check_bits(ProcessGroup group, int ranks_per_node = 0);
// Many works in flight, some never waited for, on several groups at a time.
void check_works_in_flight(ProcessGroup group);
void check_split(ProcessGroup group);
// Calls and bytes by tag, and what the event ring says.
void check_counting(ProcessGroup group);
// Wrong arguments are errors on the caller, before anything is sent.
void check_arguments(ProcessGroup group);

}  // namespace tenon::testing
