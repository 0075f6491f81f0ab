// Training on the emulated device gives the losses of the CPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "tenon/tests/plugin/child.h"

namespace tenon {
namespace {

using namespace testing;

// Runs `command` on two ranks and each device, and compares the logged losses. What the last run
// printed.
std::string compare_devices(const ScratchDirectory& folder, const std::string& name,
                            const Words& command) {
  std::string printed;
  for (const std::string device : {"cpu", "cuda"}) {
    Words words{"env", "TENON_CUDA=emulated", "TENON_PLUGIN_DIR=tools"};
    words.insert(words.end(), command.begin(), command.end());
    words.insert(words.end(), {"--device", device, "--max-steps", "5", "--threads", "1", "--log",
                               folder.file(device + name)});
    const Outcome outcome = run_program(on_ranks(2, words));
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    printed = outcome.last_line();
  }
  const std::vector<double> wanted = losses(folder.file("cpu" + name));
  const std::vector<double> given = losses(folder.file("cuda" + name));
  REQUIRE(given.size() == wanted.size());
  for (size_t i = 0; i < given.size(); ++i) {
    INFO(name << ", step " << i + 1);
    CHECK(std::abs(given[i] - wanted[i]) < 1e-4 * std::max(1.0, wanted[i]));
  }
  return printed;
}

}  // namespace

TEST_CASE("training on the emulated device, two ranks over NCCL, logs the losses of the cpu") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 160, 20);
  for (const std::string model : {"mlp", "cnn"}) {
    compare_devices(
        folder, model,
        {program("train_mnist"), "--model", model, "--data", folder.file("data"), "--batch", "8"});
  }
}

TEST_CASE("transformers on the emulated device log the losses of the cpu and go on with a text") {
  const ScratchDirectory folder;
  std::ofstream text(folder.file("text"));
  for (int i = 0; i < 20; ++i) text << "the quick brown fox jumps over the lazy dog.\n";
  text.close();
  for (const std::string arch : {"gpt", "llama"}) {
    const std::string line = compare_devices(folder, arch,
                                             {program("train_gpt"),
                                              "--arch",
                                              arch,
                                              "--data",
                                              folder.file("text"),
                                              "--dim",
                                              "16",
                                              "--layers",
                                              "2",
                                              "--heads",
                                              "2",
                                              "--context",
                                              "16",
                                              "--batch",
                                              "2",
                                              "--recompute",
                                              "--sample",
                                              "10",
                                              "--prompt",
                                              "the",
                                              "--temperature",
                                              "0"});
    CHECK(line.size() > 3);
  }
}

}  // namespace tenon
