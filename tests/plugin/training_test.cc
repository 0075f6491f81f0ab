// train_mnist on the emulated device gives the losses of the CPU.
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/tests/plugin/child.h"

namespace tenon {
namespace {

using namespace testing;

Words train(const ScratchDirectory& folder, const std::string& device, const std::string& model) {
  return {"env",
          "TENON_CUDA=emulated",
          "TENON_PLUGIN_DIR=tools",
          program("train_mnist"),
          "--device",
          device,
          "--model",
          model,
          "--data",
          folder.file("data"),
          "--batch",
          "8",
          "--max-steps",
          "5",
          "--threads",
          "1",
          "--log",
          folder.file(device + model)};
}

}  // namespace

TEST_CASE("training on the emulated device, two ranks over NCCL, logs the losses of the cpu") {
  const ScratchDirectory folder;
  write_image_files(folder.file("data"), 160, 20);
  for (const std::string model : {"mlp", "cnn"}) {
    for (const char* device : {"cpu", "cuda"}) {
      const Outcome outcome = run_program(on_ranks(2, train(folder, device, model)));
      INFO(outcome.err);
      REQUIRE(outcome.status == 0);
    }
    const std::vector<double> wanted = losses(folder.file("cpu" + model));
    const std::vector<double> given = losses(folder.file("cuda" + model));
    REQUIRE(given.size() == wanted.size());
    for (size_t i = 0; i < given.size(); ++i) {
      INFO(model << ", step " << i + 1);
      CHECK(std::abs(given[i] - wanted[i]) < 1e-4 * std::max(1.0, wanted[i]));
    }
  }
}

}  // namespace tenon
