// The same promises over the ranks of mpirun, and what only processes have: shared windows.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/distributed/comm/shared_window.h"
#include "tenon/tests/comm/collective_cases.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;

TEST_CASE("mpirun: every reduction, dtype and size") { run_on_world(check_reductions); }
TEST_CASE("mpirun: gathers, broadcasts and exchanges of every dtype") { run_on_world(check_moves); }
TEST_CASE("mpirun: messages between two ranks") { run_on_world(check_messages); }
TEST_CASE("mpirun: sums are in rank order, rounded once, to the bit") {
  run_on_world([](ProcessGroup group) { check_bits(group); });
}
TEST_CASE("mpirun: many works in flight on several groups") { run_on_world(check_works_in_flight); }
TEST_CASE("mpirun: a split makes groups ordered by key") { run_on_world(check_split); }
TEST_CASE("mpirun: calls and bytes are counted by tag and traced") { run_on_world(check_counting); }
TEST_CASE("mpirun: wrong arguments are named") { run_on_world(check_arguments); }

TEST_CASE("mpirun: the world knows its ranks and sets the rank's context") {
  const World& all = world();
  REQUIRE(all.size() > 1);
  REQUIRE(all.local_size() == all.size());
  REQUIRE(all.local_rank() == all.rank());
  REQUIRE(rank_context().rank() == all.rank());
  REQUIRE(rank_context().ranks() == all.size());
  REQUIRE(num_threads() >= 1);
}

TEST_CASE("mpirun: windows come and go on each rank by themselves") {
  run_on_world([](ProcessGroup group) {
    std::vector<std::shared_ptr<Storage>> kept;
    for (int i = 0; i < 20; ++i) {
      const auto storage = group.allocate(100000, Category::bucket);
      expect(dynamic_cast<comm::WindowSource*>(&storage->source()) != nullptr,
             "memory of the group is not in a window: ", group.note());
      if (i % 3 == group.rank() % 3) kept.push_back(storage);
      const Tensor x(storage, DType::f32, {25000});
      std::fill_n(x.data<float>(), 25000, 1.0f);
      group.all_reduce(x, ReduceOp::sum).wait();
      expect(x.data<float>()[24999] == static_cast<float>(group.size()), "sum in window ", i);
    }
    expect(
        rank_context().memory->live(Category::bucket) == static_cast<int64_t>(kept.size()) * 100000,
        "windows are counted by category");
    group.barrier().wait();
  });
}

TEST_CASE("mpirun: ranks whose memory differs in kind still agree") {
  run_on_world([](ProcessGroup group) {
    const Tensor window(group.allocate(4000, Category::bucket), DType::f32, {1000});
    const Tensor other(group.allocate(4000, Category::bucket), DType::f32, {1000});
    const Tensor x = group.rank() == 0   ? empty({1000}, {.device = kCpu})
                     : group.rank() == 1 ? window
                                         : other;
    std::fill_n(x.data<float>(), 1000, 2.0f);
    group.all_reduce(x, ReduceOp::sum).wait();
    expect(x.data<float>()[999] == 2.0f * static_cast<float>(group.size()), "sum over kinds");
  });
}

TEST_CASE("mpirun: without room for windows a group uses ordinary memory and says so") {
  run_on_world([](ProcessGroup group) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
    ProcessGroup copy = group.split(0, group.rank());
    if (group.rank() == 0) ::setrlimit(RLIMIT_FSIZE, &small);
    const Tensor x(copy.allocate(1 << 20, Category::bucket), DType::f32, {1 << 18});
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    expect(dynamic_cast<comm::WindowSource*>(&x.storage()->source()) == nullptr, "a window");
    expect(copy.note().find("ordinary memory") != std::string::npos, "note: ", copy.note());
    std::fill_n(x.data<float>(), 1 << 18, 1.0f);
    copy.all_reduce(x, ReduceOp::sum).wait();
    expect(x.data<float>()[12345] == static_cast<float>(group.size()), "sum");
  });
}

TEST_CASE("mpirun: the bits are those of ranks that are threads") {
  run_on_world([](ProcessGroup group) {
    const auto reduce = [](ProcessGroup ranks) {
      std::vector<double> values;
      for (int64_t i = 0; i < 4099; ++i) {
        values.push_back(1.0 / static_cast<double>(i * 7 + ranks.rank() * 3 + 1));
      }
      const Tensor x = from_vector(values, {4099});
      ranks.all_reduce(x, ReduceOp::mean).wait();
      return x.to_vector();
    };
    const std::vector<double> processes = reduce(group);
    std::vector<double> threads;
    run_ranks(group.size(), [&](ProcessGroup ranks) {
      const std::vector<double> result = reduce(ranks);
      if (ranks.rank() == 0) threads = result;
    });
    expect(processes == threads, "threads and processes differ");
  });
}

}  // namespace
}  // namespace tenon
