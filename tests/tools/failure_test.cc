#include <catch2/catch.hpp>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

constexpr double kSecondsAllowed = 10;

Outcome fail(const ScratchDirectory& folder, const std::string& how) {
  return run_program(
      on_ranks(2, {program("train_mnist"), "--data", folder.file("data"), "--model", "mlp",
                   "--threads", "1", "--batch", "4", "--epochs", "1000000", "--fail-rank", "1",
                   "--fail-step", "7", "--fail-how", how, "--log", folder.file("log")}));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("an error on one rank ends all and is written once with rank and step") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 16, 8);
  const Outcome outcome = fail(folder, "throw");
  INFO(outcome.err);
  CHECK(outcome.status == 1);
  CHECK(outcome.seconds < kSecondsAllowed);
  expect_parts(outcome.err, {"rank 1", "step 7", "on purpose"});
  CHECK(count(outcome.err, "on purpose") == 1);
  CHECK(read_log(folder.file("log"), "step").size() >= 4);  // what was done is in the log
}

TEST_CASE("a killed rank ends the job and is named") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 16, 8);
  const Outcome outcome = fail(folder, "kill");
  INFO(outcome.err);
  CHECK(outcome.status != 0);
  CHECK(outcome.seconds < kSecondsAllowed);
  expect_parts(outcome.err, {"rank 1"});
}
