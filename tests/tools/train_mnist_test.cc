#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

// Of the MLP, if the flags do not say otherwise.
Words train(const ScratchDirectory& folder, const Words& flags) {
  Words command{program("train_mnist"), "--data", folder.file("data")};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("training learns, and the last line counts every test image once") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 300, 53);
  for (const int ranks : {1, 3}) {
    const Outcome outcome = run_program(on_ranks(
        ranks,
        train(folder, {"--model", "mlp", "--epochs", "4", "--batch", "10", "--threads", "1"})));
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(outcome.last_line() == "test accuracy 1.0000 (53/53)");
    expect_parts(outcome.out, {"loss", "samples/s", "forward", "exposed comm", "live/peak"});
  }
}

TEST_CASE("quiet training prints the result alone") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 40, 10);
  const Outcome outcome = run_program(
      train(folder, {"--max-steps", "1", "--batch", "4", "--quiet", "--dtype", "bf16"}));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.out.starts_with("test accuracy "));
  CHECK(outcome.out == outcome.last_line() + "\n");
}

TEST_CASE("the log holds the promised fields") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 64, 20);
  const std::string log = folder.file("log.jsonl");
  const Outcome outcome = run_program(on_ranks(
      2, train(folder, {"--model", "mlp", "--epochs", "2", "--batch", "16", "--log", log, "--save",
                        folder.file("save"), "--eval-every", "3", "--threads", "1"})));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const tools::Json start = read_log(log).at(0);
  for (const char* key : {"config", "ranks", "threads", "device", "parameters", "git", "seed"}) {
    CHECK(start.contains(key));
  }
  CHECK(start.at("ranks") == 2);
  CHECK(start.at("parameters") == 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 10 * 1024 + 10);
  const auto steps = read_log(log, "step");
  REQUIRE(steps.size() == 4);
  const int64_t bytes = start.at("parameters").get<int64_t>() * 4;
  for (const tools::Json& step : steps) {
    for (const char* key :
         {"step", "epoch", "loss", "lr", "grad_norm", "samples_per_s", "step_ms", "forward_ms",
          "backward_ms", "optimizer_ms", "data_ms", "comm_ms", "comm_exposed_ms"}) {
      CHECK(step.at(key).is_number());
    }
    for (const char* key : {"parameter", "gradient", "optimizer", "activation", "bucket", "gather",
                            "other", "live", "peak"}) {
      CHECK(step.at("memory").at(key).get<int64_t>() >= 0);
    }
    CHECK(step.at("comm_calls").get<int64_t>() > 0);
    CHECK(step.at("comm_bytes").get<int64_t>() >= bytes);
    CHECK(step.at("comm_bytes").get<int64_t>() < bytes + 10000);
  }
  CHECK(steps.back().at("step") == 4);
  CHECK(steps.back().at("epoch") == 2);
  CHECK(read_log(log, "eval").at(0).at("step") == 3);
  CHECK(read_log(log, "eval").back().at("step") == 4);
  CHECK(read_log(log, "checkpoint").at(0).at("step") == 4);
  const tools::Json end = read_log(log).back();
  CHECK(end.at("kind") == "end");
  CHECK(end.at("steps") == 4);
  CHECK(end.at("reason") == "epochs");
  CHECK(end.at("seconds").get<double>() > 0);
}

TEST_CASE("the losses do not depend on the number of ranks") {
  const ScratchDirectory folder;
  // 150 = 2 * 64 + 22: the last step of an epoch is uneven for 4 ranks.
  write_image_files(folder.file("data"), 150, 10);
  const auto run = [&](int ranks, const Words& flags) {
    const std::string log = folder.file("log.jsonl");
    Words all{"--model", "mlp", "--dtype",     "f64",     "--dropout", "0",
              "--log",   log,   "--max-steps", "10",      "--threads", "1",
              "--seed",  "3",   "--optimizer", "adadelta"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run_program(on_ranks(ranks, train(folder, all)));
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return losses(log);
  };
  const std::vector<double> one = run(1, {"--batch", "64"});
  REQUIRE(one.size() == 10);
  CHECK(one.back() < one.front());
  CHECK(largest_difference(one, run(2, {"--batch", "32"})) < 1e-10);
  CHECK(largest_difference(one, run(4, {"--batch", "16"})) < 1e-10);
  CHECK(largest_difference(one, run(2, {"--batch", "8", "--accumulate", "4"})) < 1e-10);
}

TEST_CASE("a rank without samples in the last step takes part in it") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 14, 2);  // 12 and then 2 for 3 ranks
  const auto run = [&](int ranks, const std::string& batch) {
    const std::string log = folder.file("log.jsonl");
    const Outcome outcome = run_program(
        on_ranks(ranks, train(folder, {"--dtype", "f64", "--dropout", "0", "--max-steps", "4",
                                       "--threads", "1", "--batch", batch, "--log", log})));
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return losses(log);
  };
  CHECK(largest_difference(run(1, "12"), run(3, "4")) < 1e-10);
}

TEST_CASE("an unreadable data set ends a program with status 4 and the file's name") {
  const ScratchDirectory folder;
  const Outcome missing = run_program(train(folder, {}));
  CHECK(missing.status == 4);
  expect_parts(missing.err, {folder.file("data")});
  write_image_files(folder.file("data"), 20, 10);
  std::filesystem::resize_file(folder.file("data/train-images-idx3-ubyte"), 5000);
  const Outcome cut = run_program(on_ranks(2, train(folder, {})));
  CHECK(cut.status == 4);
  expect_parts(cut.err, {"train-images-idx3-ubyte"});
}
