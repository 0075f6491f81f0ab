#include <catch2/catch.hpp>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

Words bench(const Words& flags) {
  Words command{program("bench_ops"), "--threads", "1", "--max-seconds"};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

}  // namespace

TEST_CASE("bench_ops prints time, rate and share of chosen ops and writes them as JSON") {
  const ScratchDirectory folder;
  const Outcome outcome =
      run_program(bench({"0.05", "--filter", "relu", "--json", folder.file("ops.json")}));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  expect_parts(outcome.out, {"ceilings", "relu backward", "(4194304)", "GB/s", "%"});
  const tools::Json json = tools::Json::parse(read_file(folder.file("ops.json")));
  REQUIRE(json.at("rows").size() == 2);
  for (const tools::Json& row : json.at("rows")) {
    CHECK(row.at("us").get<double>() > 0);
    CHECK(row.at("rate").get<double>() > 0);
    CHECK(row.at("share_percent").get<double>() > 0);
  }
  CHECK(json.at("ceilings").at("copy_gb_per_s").get<double>() > 0);
  CHECK(json.at("ceilings").at("multiply_add_gflop_per_s").get<double>() > 0);
}

TEST_CASE("every op that bench_ops lists runs in every dtype") {
  for (const char* dtype : {"f32", "f64", "bf16", "f16"}) {
    const Outcome outcome = run_program(bench(
        {"0.0001", "--size", "2048", "--sequences", "1", "--tokens", "16", "--dtype", dtype}));
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    expect_parts(outcome.out, {"matmul", "conv2d backward weight", "adadelta", "embedding",
                               "rank_reduce of 2", "batch_norm backward", "avg_pool2d"});
  }
}

TEST_CASE("bench_ops names an unknown flag and lists the ops when none fits the filter") {
  const Outcome flag = run_program(bench({"0.05", "--typo"}));
  CHECK(flag.status == 2);
  expect_parts(flag.err, {"--typo", "--filter"});
  const Outcome json = run_program(bench({"0.05", "--json", "none/ops.json"}));
  CHECK(json.status == 2);
  CHECK(json.out.empty());
  expect_parts(json.err, {"--json", "none"});
  const Outcome filter = run_program(bench({"0.05", "--filter", "no such op"}));
  CHECK(filter.status == 2);
  expect_parts(filter.err, {"no such op", "adadelta"});
}
