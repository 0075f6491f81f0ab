// Tests over ranks. The same body runs on threads and, in *_mpi_test.cc, on the ranks of mpirun.
// Catch2's assertions are not thread safe: bodies report by expect(), which throws.
#pragma once

#include <functional>

#include "tenon/core/check.h"
#include "tenon/distributed/comm/local_group.h"
#include "tenon/distributed/comm/world.h"

namespace tenon::testing {

using RankBody = std::function<void(ProcessGroup)>;

// The world of a test program under mpirun, made on first use.
World& world();

// Runs `body` on the ranks of mpirun. A failure ends the whole run with its message, because the
// other ranks may wait for this one.
void run_on_world(const RankBody& body);

// Throws Error(parts…) when `condition` does not hold.
template <class... Parts>
void expect(bool condition, const Parts&... parts) {
  if (!condition) fail("test", parts...);
}

// Throws unless `action` throws an Error whose text contains `part`.
void expect_error(const std::function<void()>& action, const std::string& part);

}  // namespace tenon::testing
