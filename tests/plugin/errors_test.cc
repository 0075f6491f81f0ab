// What goes wrong on a CUDA device is told with the call, the rank and what to do; nothing hangs.
#include <catch2/catch.hpp>
#include <csignal>
#include <iostream>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/embedding.h"
#include "tenon/tests/plugin/child.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;

constexpr Device kCuda{DeviceType::cuda, 0};
constexpr double kSecondsAllowed = 20;

Tensor on_device(int64_t count) { return empty({count}, {.device = kCuda}); }

template <class Action>
void tell(Action&& action) {
  try {
    action();
    std::cout << "no error\n";
  } catch (const Error& error) {
    std::cout << "error: " << error.what() << "\n";
  }
}

TEST_CASE("child: memory", "[.]") {
  const Tensor kept = empty({1 << 20}, {.device = kCuda, .category = Category::parameter});
  tell([] { on_device(int64_t{64} << 20); });
  const Tensor small = on_device(8);  // the allocator goes on
}

TEST_CASE("child: launch", "[.]") {
  Tensor x = on_device(100);
  tell([&] { kernels::fill(DeviceType::cuda, x, 1.0); });
  kernels::fill(DeviceType::cuda, x, 2.0);
  std::cout << x.to_vector()[99] << "\n";
}

TEST_CASE("child: index", "[.]") {
  const Tensor weight = zeros({5, 3}, {.device = kCuda});
  const Tensor ids = from_data<int64_t>({1, 2, 3, 9}, {4}, Category::other, kCuda);
  Tensor out = empty({4, 3}, {.device = kCuda});
  kernels::embedding(DeviceType::cuda, weight, ids, out);
  tell([&] { synchronize(kCuda); });
  tell([&] { synchronize(kCuda); });
}

// Ranks of mpirun with a device each.
ProcessGroup device_group() {
  World& all = world();
  set_default_device(all.use(DeviceType::cuda));
  return all.group();
}

TEST_CASE("child: nccl mismatch", "[.]") {
  ProcessGroup group = device_group();
  const Tensor x = zeros({group.rank() == 1 ? 6 : 5});
  try {
    group.all_reduce(x, ReduceOp::sum).wait();
    synchronize(default_device());
    for (int i = 0; i < 300; ++i) group.barrier().wait();
  } catch (const Error& error) {
    group.abort(error);
  }
}

TEST_CASE("child: nccl killed", "[.]") {
  ProcessGroup group = device_group();
  const Tensor x = zeros({5});
  for (int i = 0; i < 3; ++i) group.all_reduce(x, ReduceOp::sum).wait();
  if (group.rank() == 1) std::raise(SIGKILL);
  group.all_reduce(x, ReduceOp::sum).wait();
  synchronize(default_device());
}

}  // namespace

TEST_CASE("a device without memory is told with the table of categories") {
  const Outcome outcome =
      child({"TENON_CUDA=emulated", "TENON_EMULATED_MEMORY=134217728"}, "child: memory");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  expect_parts(outcome.out,
               {"error: [memory] out of memory on cuda:0", "given a request of 268435456",
                "free of 134217728", "parameter", "4194304"});
}

TEST_CASE("a kernel that cannot be launched is told with its op, grid and block") {
  const Outcome outcome =
      child({"TENON_CUDA=emulated", "TENON_EMULATED_FAIL=launch:1"}, "child: launch");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  expect_parts(outcome.out,
               {"error: [fill] kernel launch failed on cuda:0: cudaError", "grid", "\n2\n"});
}

TEST_CASE("an index out of range is told once, when the host waits for the device") {
  const Outcome outcome = child({"TENON_CUDA=emulated"}, "child: index");
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  expect_parts(
      outcome.out,
      {"error: [embedding] id out of range: given 9 at place 3, wanted 0 to 4", "no error"});
}

TEST_CASE("ranks that call different things over NCCL end with both named") {
  for (const char* mode : {"eager", "async"}) {
    const Outcome outcome =
        child({"TENON_CUDA=emulated", str("TENON_SIMT_MODE=", mode)}, "child: nccl mismatch", 2);
    INFO(mode << outcome.out << outcome.err);
    CHECK(outcome.status != 0);
    CHECK(outcome.seconds < kSecondsAllowed);
    expect_parts(outcome.out + outcome.err,
                 {"[nccl]", "all_reduce of 5", "all_reduce of 6", "rank 1"});
  }
}

TEST_CASE("a lost peer ends the ranks that wait for it in NCCL") {
  for (const char* mode : {"eager", "async"}) {
    const Outcome outcome =
        child({"TENON_CUDA=emulated", str("TENON_SIMT_MODE=", mode)}, "child: nccl killed", 3);
    INFO(mode << outcome.out << outcome.err);
    CHECK(outcome.status != 0);
    CHECK(outcome.seconds < kSecondsAllowed);
    expect_parts(outcome.out + outcome.err, {"rank 1"});
  }
}

}  // namespace tenon
