#pragma once
// Catch2 version 2 cannot skip a test case. TENON_SKIP ends the case that it stands in and has it
// counted and named as skipped, with the reason.

#include <string>

namespace tenon::testing {

void mark_skipped(const std::string& reason);

}  // namespace tenon::testing

#define TENON_SKIP(reason)                  \
  do {                                      \
    ::tenon::testing::mark_skipped(reason); \
    return;                                 \
  } while (false)
