// The promises of collectives over ranks that are threads.
#include <catch2/catch.hpp>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/comm/collective_cases.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;

void on_threads(const RankBody& body, int fewest = 1) {
  for (int ranks = fewest; ranks <= 5; ++ranks) {
    CAPTURE(ranks);
    REQUIRE_NOTHROW(run_ranks(ranks, body));
  }
}

TEST_CASE("threads: every reduction, dtype and size") { on_threads(check_reductions); }
TEST_CASE("threads: gathers, broadcasts and exchanges of every dtype") { on_threads(check_moves); }
TEST_CASE("threads: messages between two ranks") { on_threads(check_messages, 2); }
TEST_CASE("threads: sums are in rank order, rounded once, to the bit") {
  on_threads([](ProcessGroup group) { check_bits(group); });
}
TEST_CASE("threads: many works in flight on several groups") {
  on_threads(check_works_in_flight, 2);
}
TEST_CASE("threads: a split makes groups ordered by key") { on_threads(check_split); }
TEST_CASE("threads: calls and bytes are counted by tag and traced") {
  on_threads(check_counting, 2);
}
TEST_CASE("threads: wrong arguments are named") { on_threads(check_arguments, 2); }

TEST_CASE("a group of one completes at once and counts nothing") {
  ProcessGroup alone;
  REQUIRE(alone.rank() == 0);
  REQUIRE(alone.size() == 1);
  rank_context().traffic.reset();
  const Tensor x = full({3}, 2.0);
  const Tensor y = zeros({3});
  alone.all_reduce(x, ReduceOp::mean).wait();
  alone.all_gather(y, x).wait();
  REQUIRE(y.to_vector() == std::vector<double>{2, 2, 2});
  REQUIRE(alone.barrier().done());
  REQUIRE(rank_context().traffic.by_tag().empty());
}

TEST_CASE("a collective changes the version of what it writes, a gather does not") {
  run_ranks(2, [](ProcessGroup group) {
    const Tensor x = zeros({2});
    const Tensor whole = zeros({4});
    const uint32_t before = x.version();
    group.all_reduce(x, ReduceOp::sum).wait();
    expect(x.version() == before + 1, "all_reduce bumps the version once");
    const uint32_t whole_before = whole.version();
    group.all_gather(whole, x).wait();
    expect(whole.version() == whole_before, "all_gather leaves the version to the caller");
  });
}

}  // namespace
}  // namespace tenon
