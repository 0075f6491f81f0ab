// Results of a benchmark for people, and where they were measured.
#pragma once

#include "tenon/tools/run_log.h"

namespace tenon::tools {

// Each value of `row` under its name.
void print_table(const Json& row);

// Processor, cores, ranks, threads and commit.
Json environment(int ranks, int threads);

}  // namespace tenon::tools
