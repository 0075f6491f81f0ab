#include <catch2/catch.hpp>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

Words bench(const ScratchDirectory& folder, const Words& flags) {
  Words command{program("bench_train"),
                "--steps",
                "1",
                "--warmup",
                "0",
                "--pairs",
                "3",
                "--threads",
                "1",
                "--check-steps",
                "1",
                "--json",
                folder.file("row.json")};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

tools::Json row(const ScratchDirectory& folder) {
  return tools::Json::parse(read_file(folder.file("row.json"))).at("rows").at(0);
}

}  // namespace

TEST_CASE("bench_train prints a row of the promised columns and writes it as JSON") {
  const ScratchDirectory folder;
  for (const char* model : {"mlp", "cnn"}) {
    const Outcome outcome = run_program(bench(folder, {"--model", model, "--dtype", "bf16"}));
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const Words columns{"model",        "dtype",          "threads",         "ranks",
                        "ours_ms_best", "ours_ms_median", "loss_ours",       "ours_peak_bytes",
                        "forward_ms",   "backward_ms",    "comm_exposed_ms", "optimizer_ms",
                        "page_faults"};
    expect_parts(outcome.out, columns);
    for (const std::string& column : columns) CHECK(row(folder).contains(column));
    CHECK(row(folder).at("model") == model);
    CHECK(row(folder).at("loss_ours").get<double>() > 0);
    CHECK(row(folder).at("ours_ms_best") <= row(folder).at("ours_ms_median"));
  }
}

TEST_CASE("bench_train compares DDP with the bare model and with independent ranks") {
  const ScratchDirectory folder;
  REQUIRE(run_program(bench(folder, {"--overhead"})).status == 0);
  CHECK(row(folder).at("ratio").get<double>() > 0);
  CHECK(row(folder).contains("bare_ms_median"));
  REQUIRE(run_program(on_ranks(2, bench(folder, {"--independent"}))).status == 0);
  CHECK(row(folder).at("ranks") == 2);
  CHECK(row(folder).contains("independent_ms_median"));
}

TEST_CASE("bench_train refuses comparisons that make no sense and a Python that is not there") {
  const ScratchDirectory folder;
  CHECK(run_program(bench(folder, {"--overhead", "--independent"})).status == 2);
  CHECK(run_program(bench(folder, {"--independent"})).status == 2);
  const Outcome python = run_program(bench(folder, {"--torch", "/no/such/python"}));
  CHECK(python.status == 1);
  expect_parts(python.err, {"/no/such/python"});
}
