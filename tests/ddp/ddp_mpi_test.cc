// The same behaviour of DDP over the ranks of mpirun.
#include <catch2/catch.hpp>

#include "tenon/tests/ddp/ddp_cases.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;

TEST_CASE("mpirun: N ranks with batch B are one rank with batch N B") {
  run_on_world(check_theorem);
}
TEST_CASE("mpirun: delays in front of collectives and bucket caps change no bit") {
  run_on_world(check_bits);
}
TEST_CASE("mpirun: a step has one all-reduce per bucket") { run_on_world(check_traffic); }
TEST_CASE("mpirun: parameters, one copy of the gradients and the optimizer's state") {
  run_on_world(check_memory);
}
TEST_CASE("mpirun: a model that differs on one rank is named on every rank") {
  run_on_world(check_different_models);
}

TEST_CASE("mpirun: the bits are those of ranks that are threads") {
  run_on_world([](ProcessGroup group) {
    const TrainConfig config{.dtype = DType::f32, .steps = 5, .batch = group.size() * 3};
    const std::vector<double> processes = train_small_mlp(group, config);
    std::vector<double> threads;
    run_ranks(group.size(), [&](ProcessGroup local) {
      const std::vector<double> values = train_small_mlp(local, config);
      if (local.rank() == 0) threads = values;
    });
    expect(processes == threads, "threads and processes differ");
  });
}

}  // namespace
}  // namespace tenon
