// Failures of ranks that are threads: everybody hears of them, nobody hangs.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Matchers::Contains;

// The text of the Error that run_ranks throws; every rank must have failed when `all`.
std::string failure_of(int ranks, const RankBody& body, bool all = true) {
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  std::string thrown;
  try {
    run_ranks(ranks, [&](ProcessGroup group) {
      try {
        body(group);
      } catch (const std::exception& error) {
        texts[static_cast<size_t>(group.rank())] = error.what();
        throw;
      }
    });
  } catch (const Error& error) {
    thrown = error.what();
  }
  for (const std::string& text : texts) REQUIRE((!all || !text.empty()));
  return thrown;
}

TEST_CASE("threads: ranks that call different collectives all get an error that names both",
          "[host]") {
  const std::string sizes = failure_of(3, [](ProcessGroup group) {
    group.barrier().wait();
    group.all_reduce(zeros({group.rank() == 2 ? 5 : 3}), ReduceOp::sum).wait();
  });
  REQUIRE_THAT(sizes, Contains("rank 0: call 2, all_reduce (sum) of 3 f32"));
  REQUIRE_THAT(sizes, Contains("rank 2: call 2, all_reduce (sum) of 5 f32"));
  const std::string kinds = failure_of(2, [](ProcessGroup group) {
    const Tensor x = zeros({3});
    (group.rank() == 0 ? group.broadcast(x, 0) : group.all_reduce(x, ReduceOp::sum)).wait();
  });
  REQUIRE_THAT(kinds, Contains("broadcast of 3 f32 from rank 0") && Contains("all_reduce (sum)"));
  const std::string ops = failure_of(2, [](ProcessGroup group) {
    const ReduceOp op = group.rank() == 0 ? ReduceOp::sum : ReduceOp::max;
    group.all_reduce(zeros({3}), op).wait();
  });
  REQUIRE_THAT(ops, Contains("(sum)") && Contains("(max)"));
  const std::string roots =
      failure_of(2, [](ProcessGroup group) { group.broadcast(zeros({3}), group.rank()).wait(); });
  REQUIRE_THAT(roots, Contains("from rank 0") && Contains("from rank 1"));
  const std::string dtypes = failure_of(2, [](ProcessGroup group) {
    const DType dtype = group.rank() == 0 ? DType::f32 : DType::f64;
    group.all_reduce(zeros({3}, {.dtype = dtype}), ReduceOp::sum).wait();
  });
  REQUIRE_THAT(dtypes, Contains("f32") && Contains("f64"));
}

TEST_CASE("threads: a rank that throws ends the waits of all others", "[host]") {
  const std::string text = failure_of(4, [](ProcessGroup group) {
    group.barrier().wait();
    if (group.rank() == 2) throw std::runtime_error("out of luck");
    while (true) group.all_reduce(zeros({3}), ReduceOp::sum).wait();
  });
  REQUIRE(text == "rank 2: out of luck");
}

TEST_CASE("threads: an abort ends pending and later waits on every rank", "[host]") {
  const std::string text = failure_of(3, [](ProcessGroup group) {
    if (group.rank() == 1) group.abort(Error("[user] enough"));
    expect_error([&] { group.barrier().wait(); }, "aborted by rank 1: [user] enough");
    expect_error([&] { group.recv(zeros({1}), (group.rank() + 1) % 3).wait(); }, "aborted");
    throw Error("done");
  });
  REQUIRE(text == "rank 1: [user] enough");
}

TEST_CASE("threads: a rank that returns early is named by those that wait for it", "[host]") {
  const auto early = [](ProcessGroup group) {
    if (group.rank() == 1) return;
    group.all_reduce(zeros({3}), ReduceOp::sum, {.tag = "ddp"}).wait();
  };
  REQUIRE_THAT(failure_of(3, early, false),
               Contains("rank 1 has returned") && Contains("all_reduce (sum) of 3 f32"));
  const auto receive = [](ProcessGroup group) {
    if (group.rank() == 0) group.recv(zeros({3}), 1).wait();
  };
  REQUIRE_THAT(failure_of(2, receive, false), Contains("rank 1 has returned"));
}

TEST_CASE("threads: a failure inside a split group reaches the others too", "[host]") {
  const std::string text = failure_of(4, [](ProcessGroup group) {
    ProcessGroup half = group.split(group.rank() % 2, 0);
    if (group.rank() == 3) fail("user", "lost");
    half.all_reduce(zeros({3}), ReduceOp::sum).wait();
    group.barrier().wait();
  });
  REQUIRE(text == "rank 3: [user] lost");
}

TEST_CASE("threads: a message of another size is named", "[host]") {
  const auto body = [](ProcessGroup group) {
    if (group.rank() == 0) group.send(zeros({3}), 1).wait();
    if (group.rank() == 1) group.recv(zeros({4}), 0).wait();
  };
  REQUIRE_THAT(failure_of(2, body, false), Contains("sent 3 f32") && Contains("wanted 4 f32"));
}

TEST_CASE("threads: a rank that does not come in time is named", "[host]") {
  ::setenv("TENON_TIMEOUT_S", "0.2", 1);
  const std::string text = failure_of(
      2,
      [](ProcessGroup group) {
        if (group.rank() == 0) group.barrier().wait();
        // Still alive, but not in the collective.
        while (group.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          group.recv(zeros({1}), 0).wait();
        }
      },
      false);
  ::unsetenv("TENON_TIMEOUT_S");
  REQUIRE_THAT(text, Contains("no answer within 0.2 s"));
}

TEST_CASE("threads: each rank has its own context", "[host]") {
  run_ranks(3,
            [](ProcessGroup group) {
              expect(rank_context().rank() == group.rank() && rank_context().ranks() == 3, "rank");
              expect(num_threads() == 1, "threads: given ", num_threads(), ", wanted 1");
            },
            {.seed = 7});
}

TEST_CASE("run_ranks wants at least one rank", "[host]") {
  REQUIRE_THROWS_AS(run_ranks(0, [](ProcessGroup) {}), Error);
}

}  // namespace
}  // namespace tenon
