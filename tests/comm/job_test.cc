// What happens to a whole job: this program starts mpirun with itself and looks at the end of it.
// The hidden cases are what the ranks of such a job run.
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/trace.h"
#include "tenon/tests/comm/collective_cases.h"
#include "tenon/tests/support/ranks.h"
#include "tenon/tests/support/scratch.h"
#include "tenon/tests/support/skip.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Matchers::Contains;

struct Job {
  int status = 0;
  std::string output;
  double seconds = 0;
};

// Runs the hidden case `name` of this program on `ranks` ranks.
Job run_job(int ranks, const std::string& name, const std::string& environment = "") {
  std::array<char, 4096> path{};
  REQUIRE(::readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  const std::string command =
      str("env -u TENON_TEST_REPORT TMPDIR=/tmp ASAN_OPTIONS=detect_leaks=0 ", environment,
          " mpirun --allow-run-as-root --oversubscribe --bind-to none -np ", ranks, " '",
          path.data(), "' --use-colour no '", name, "' 2>&1 >/dev/null");
  const auto start = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Job job;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    job.output += static_cast<char>(c);
  }
  const int status = ::pclose(pipe);
  job.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  job.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  INFO(job.output);
  return job;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// MPI is not instrumented for ThreadSanitizer.
#ifdef TENON_TSAN
constexpr bool kCanRunJobs = false;
#else
constexpr bool kCanRunJobs = true;
#endif

TEST_CASE("job: killed", "[.]") {
  ProcessGroup group = world().group();
  for (int i = 0; i < 3; ++i) group.all_reduce(zeros({5}), ReduceOp::sum).wait();
  group.set_delay([](int rank, std::string_view, uint64_t) {
    if (rank == 1) std::raise(SIGKILL);
    return 0;
  });
  const Tensor whole = zeros({group.size() * 7});
  group.all_gather(whole, zeros({7}), {.tag = "fsdp", .index = 4}).wait();
}

TEST_CASE("a rank killed from outside ends the job, and its ring names its last collective",
          "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  const ScratchDirectory rings;
  const Job job = run_job(3, "job: killed", "TENON_RING_DIR=" + rings.path());
  INFO(job.output);
  REQUIRE(job.status != 0);
  REQUIRE_THAT(job.output, Contains("rank 1") && Contains("signal 9"));
  REQUIRE(count_of(job.output, "rank 0:") + count_of(job.output, "rank 2:") == 0);
  const std::vector<Event> events = EventRing::read(rings.file("rank_1.ring"));
  REQUIRE(events.size() == 4);
  REQUIRE(std::string(events[3].op) == "all_gather");
  REQUIRE(std::string(events[3].tag) == "fsdp");
  REQUIRE(events[3].index == 4);
  REQUIRE(events[3].end_ns == 0);
  REQUIRE(events[2].end_ns > 0);
}

TEST_CASE("job: different collectives", "[.]") {
  ProcessGroup group = world().group();
  const Tensor x = zeros({3});
  try {
    (group.rank() == 1 ? group.broadcast(x, 0) : group.all_reduce(x, ReduceOp::sum)).wait();
  } catch (const Error& error) {
    group.abort(error);
  }
}

TEST_CASE("ranks of mpirun that call different collectives are named, once", "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  const Job job = run_job(3, "job: different collectives");
  INFO(job.output);
  REQUIRE(job.status == 1);
  REQUIRE(count_of(job.output, "rank 0: call 1, all_reduce (sum) of 3 f32") == 1);
  REQUIRE(count_of(job.output, "rank 1: call 1, broadcast of 3 f32 from rank 0") == 1);
  // Ranks without common memory compare their calls when asked to.
  const Job apart =
      run_job(2, "job: different collectives", "TENON_RANKS_PER_NODE=1 TENON_DEBUG=detail");
  INFO(apart.output);
  REQUIRE(apart.status == 1);
  REQUIRE_THAT(apart.output, Contains("rank 1: call 1, broadcast of 3 f32 from rank 0"));
}

TEST_CASE("job: uncaught", "[.]") {
  ProcessGroup group = world().group();
  rank_context().step = 37;
  group.barrier().wait();
  // As if main had not caught it.
  if (group.rank() == 1) []() noexcept { fail("user", "boom"); }();
  group.all_reduce(zeros({3}), ReduceOp::sum).wait();
}

TEST_CASE("an uncaught error is written once, with rank and step, and ends all ranks", "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  const Job job = run_job(2, "job: uncaught");
  INFO(job.output);
  REQUIRE(job.status == 1);
  REQUIRE(count_of(job.output, "rank 1: step 37: [user] boom") == 1);
  REQUIRE(count_of(job.output, "rank 0:") == 0);
}

TEST_CASE("job: late", "[.]") {
  ProcessGroup group = world().group();
  group.barrier().wait();
  if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes(5));
  try {
    group.all_reduce(zeros({300}), ReduceOp::sum, {.tag = "ddp"}).wait();
  } catch (const Error& error) {
    group.abort(error);
  }
}

TEST_CASE("a rank that does not come in time is named, in shared memory and over messages",
          "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  for (const std::string where : {"", "TENON_RANKS_PER_NODE=1"}) {
    const Job job = run_job(2, "job: late", "TENON_TIMEOUT_S=1 " + where);
    INFO(job.output);
    REQUIRE(job.status == 3);
    REQUIRE_THAT(job.output, Contains("no answer within 1 s from rank 1") &&
                                 Contains("call 2, all_reduce (sum) of 300 f32"));
    REQUIRE(count_of(job.output, "no answer") == 1);
  }
}

TEST_CASE("job: early", "[.]") {
  ProcessGroup group = world().group();
  if (group.rank() == 1) return;
  try {
    group.all_reduce(zeros({3}), ReduceOp::sum).wait();
  } catch (const Error& error) {
    group.abort(error);
  }
}

TEST_CASE("a rank of mpirun that ends early is named by those that wait for it", "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  const Job job = run_job(3, "job: early");
  INFO(job.output);
  REQUIRE(job.status == 3);
  REQUIRE_THAT(job.output, Contains("a rank has ended its world: rank 1"));
}

TEST_CASE("job: nodes", "[.]") {
  const int per_node = std::atoi(std::getenv("TENON_RANKS_PER_NODE"));
  run_on_world(check_reductions);
  run_on_world(check_moves);
  run_on_world(check_messages);
  run_on_world([&](ProcessGroup group) { check_bits(group, per_node); });
  run_on_world(check_works_in_flight);
  run_on_world(check_split);
}

TEST_CASE("several nodes: the same promises, sums of a node first", "[host]") {
  if (!kCanRunJobs) TENON_SKIP("MPI is not instrumented");
  // Two nodes of two, an uneven last node, and nodes of one rank.
  for (const auto& [ranks, per_node] : {std::pair{4, 2}, std::pair{3, 2}, std::pair{2, 1}}) {
    const Job job =
        run_job(ranks, "job: nodes", str("TENON_DEBUG=detail TENON_RANKS_PER_NODE=", per_node));
    INFO(job.output);
    REQUIRE(job.status == 0);
  }
}

}  // namespace
}  // namespace tenon
