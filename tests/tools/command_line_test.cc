#include <catch2/catch.hpp>
#include <fstream>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

Outcome train(const Words& flags) {
  Words command{program("train_mnist")};
  command.insert(command.end(), flags.begin(), flags.end());
  return run_program(command);
}

}  // namespace

TEST_CASE("an unknown flag ends a program with status 2 and the valid flags") {
  const Outcome outcome = train({"--no-such-flag", "3"});
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  expect_parts(outcome.err, {"--no-such-flag", "--epochs", "--batch", "--optimizer", "--resume"});
}

TEST_CASE("a wrong value ends a program with status 2 and the valid values") {
  const Outcome model = train({"--model", "transformer"});
  CHECK(model.status == 2);
  expect_parts(model.err, {"--model", "transformer", "cnn", "mlp"});
  const Outcome batch = train({"--batch=0"});
  CHECK(batch.status == 2);
  expect_parts(batch.err, {"--batch", "at least 1"});
  CHECK(train({"--lr", "fast"}).status == 2);
  CHECK(train({"--save-every", "5"}).status == 2);
  const Outcome schedule = train({"--lr", "1", "--min-lr", "2"});
  CHECK(schedule.status == 2);
  expect_parts(schedule.err, {"min_lr", "given 2"});
}

TEST_CASE("help lists flags with their defaults and ends with status 0") {
  const Outcome outcome = train({"--help"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  expect_parts(outcome.out,
               {"--batch", "64", "--bucket-bytes", "26214400", "{cnn,mlp}", "--fail-rank"});
}

TEST_CASE("a wrong flag under mpirun is said once") {
  const Outcome outcome = run_program(on_ranks(2, {program("train_mnist"), "--typo"}));
  CHECK(outcome.status == 2);
  const size_t first = outcome.err.find("valid flags");
  REQUIRE(first != std::string::npos);
  CHECK(outcome.err.find("valid flags", first + 1) == std::string::npos);
}

TEST_CASE("a config file holds the flags' names and flags win over it") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 40, 10);
  std::ofstream(folder.file("run.ini")) << "model = mlp\nmax-steps = 2\nbatch = 10\nseed = 5\n"
                                        << "data = " << folder.file("data") << "\n";
  const Outcome outcome = train(
      {"--config", folder.file("run.ini"), "--batch", "20", "--log", folder.file("log.jsonl")});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const tools::Json config = read_log(folder.file("log.jsonl"), "start").at(0).at("config");
  CHECK(config.at("model") == "mlp");
  CHECK(config.at("max_steps") == 2);
  CHECK(config.at("batch") == 20);
  CHECK(config.at("seed") == 5);
  std::ofstream(folder.file("wrong.ini")) << "learning-rate = 1\n";
  const Outcome wrong = train({"--config", folder.file("wrong.ini")});
  CHECK(wrong.status == 2);
  expect_parts(wrong.err, {"learning-rate", "--lr"});
}
