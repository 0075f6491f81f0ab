#include <catch2/catch.hpp>
#include <fstream>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

// The CNN with its dropout, whose random numbers must go on where they were.
Outcome train(const ScratchDirectory& folder, int ranks, const Words& flags) {
  Words command{program("train_mnist"), "--data", folder.file("data"), "--threads", "1",
                "--print-every",        "1"};
  command.insert(command.end(), flags.begin(), flags.end());
  return run_program(on_ranks(ranks, command));
}

}  // namespace

TEST_CASE("a resumed run is the uninterrupted one to the bit") {
  for (const int ranks : {1, 2}) {
    for (const char* optimizer : {"adadelta", "adamw"}) {
      const ScratchDirectory folder;
      write_image_files(folder.file("data"), 50, 10);
      const std::string whole_log = folder.file("whole.jsonl"), log = folder.file("parts.jsonl");
      const Words flags{"--batch", "4", "--optimizer", optimizer};
      const auto run = [&](Words more) {
        more.insert(more.end(), flags.begin(), flags.end());
        const Outcome outcome = train(folder, ranks, more);
        INFO(outcome.out << outcome.err);
        REQUIRE(outcome.status == 0);
      };
      run({"--max-steps", "10", "--save", folder.file("whole"), "--log", whole_log});
      run({"--max-steps", "5", "--save", folder.file("parts"), "--log", log});
      run({"--max-steps", "10", "--save", folder.file("parts"), "--log", log, "--resume",
           folder.file("parts")});
      CHECK(losses(whole_log) == losses(log));
      for (const char* file : {"model.safetensors", "optimizer.safetensors", "training.json"}) {
        const std::string name = std::string("/step-000010/") + file;
        CHECK(read_file(folder.file("whole" + name)) == read_file(folder.file("parts" + name)));
      }
      CHECK(read_file(folder.file("parts/latest")) == "step-000010\n");
      const auto starts = read_log(log, "start");
      REQUIRE(starts.size() == 2);
      CHECK(starts.at(1).at("step") == 5);
    }
  }
}

TEST_CASE("a run can go on with another number of ranks and says what changes") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 48, 10);
  const auto run = [&](int ranks, const Words& flags) {
    const Outcome outcome = train(folder, ranks, flags);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome;
  };
  run(1, {"--batch", "8", "--max-steps", "2", "--save", folder.file("save")});
  const Outcome resumed = run(2, {"--batch", "4", "--max-steps", "4", "--resume",
                                  folder.file("save/step-000002"), "--log", folder.file("log")});
  expect_parts(resumed.out, {"resumed from", "made by 1 ranks, now 2"});
  CHECK(read_log(folder.file("log"), "step").at(0).at("step") == 3);
  const Outcome refused =
      train(folder, 1, {"--batch", "3", "--max-steps", "4", "--resume", folder.file("save")});
  CHECK(refused.status == 2);
  expect_parts(refused.err, {"sample 16", "global batch 3"});
  const Outcome other =
      train(folder, 1, {"--batch", "8", "--model", "mlp", "--resume", folder.file("save")});
  CHECK(other.status == 2);
  expect_parts(other.err, {"--model cnn", "given mlp"});
}

TEST_CASE("a missing or damaged checkpoint ends the run with status 4 and names the place") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 20, 10);
  const std::string save = folder.file("save"), checkpoint = save + "/step-000001";
  const auto resume = [&](int ranks = 1) {
    return train(folder, ranks, {"--batch", "4", "--max-steps", "2", "--resume", save});
  };
  CHECK(resume().status == 4);
  REQUIRE(train(folder, 1, {"--batch", "4", "--max-steps", "1", "--save", save}).status == 0);
  REQUIRE(resume().status == 0);

  std::string model = read_file(checkpoint + "/model.safetensors");
  const size_t name = model.find("conv2.bias");
  REQUIRE(name != std::string::npos);
  model.replace(name, 10, "conv9.bias");
  std::ofstream(checkpoint + "/model.safetensors", std::ios::binary) << model;
  const Outcome renamed = resume(2);
  CHECK(renamed.status == 4);
  expect_parts(renamed.err, {"model.safetensors", "conv2.bias", "conv9.bias"});

  std::filesystem::resize_file(checkpoint + "/model.safetensors", model.size() / 2);
  const Outcome cut = resume();
  CHECK(cut.status == 4);
  expect_parts(cut.err, {"model.safetensors"});

  std::ofstream(checkpoint + "/training.json") << "{";
  const Outcome json = resume();
  CHECK(json.status == 4);
  expect_parts(json.err, {"training.json", "damaged"});
}
