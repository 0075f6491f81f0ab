#include <catch2/catch.hpp>
#include <fstream>

#include "tenon/core/check.h"
#include "tenon/optim/adadelta.h"
#include "tenon/tests/tools/program.h"
#include "tenon/tools/alternate.h"
#include "tenon/tools/checkpoint_dir.h"
#include "tenon/tools/models.h"
#include "tenon/tools/step_record.h"

using namespace tenon;
using namespace tenon::testing;
using namespace tenon::tools;

TEST_CASE("the log reads back the same bits") {
  const ScratchDirectory folder;
  const std::string path = folder.file("log");
  const double loss = 2.3025850929940459 / 3;
  RunLog(path, false).write("step", {{"loss", loss}, {"step", 1}});
  RunLog(path, true).write("step", {{"loss", 1.0}, {"step", 2}});
  CHECK(losses(path) == std::vector<double>{loss, 1.0});
  CHECK(read_file(path).starts_with(R"({"kind":"step","loss":)"));
  RunLog(path, false);
  CHECK(read_file(path).empty());
  CHECK_THROWS_AS(RunLog(folder.file("no/such/folder"), false), Error);
}

TEST_CASE("a progress line means the steps since the last one") {
  MemoryCounters memory;
  Progress progress(20, 2);
  CHECK(progress.empty());
  StepRecord record;
  record.samples = 10;
  record.epoch = 1;
  for (const double loss : {1.0, 2.0}) {
    ++record.step;
    record.loss = loss;
    record.accuracy = loss / 4;
    progress.add(record);
  }
  expect_parts(progress.line(memory), {"step 2/20 epoch 1/2 loss 1.5000 acc 37.50%"});
  CHECK(progress.empty());
}

TEST_CASE("runs alternate and every run is kept") {
  std::string order;
  const TimingPair pair = alternate(
      3, [&] { return order += 'a', 1.0; }, [&] { return order += 'b', double(order.size()); });
  CHECK(order == "abbaab");
  CHECK(pair.a.ms == std::vector<double>{1, 1, 1});
  CHECK(pair.b.best() == 2);
  CHECK(pair.b.median() == 3);
}

TEST_CASE("a checkpoint replaces one of the same step and the newest is found") {
  const ScratchDirectory folder;
  const std::string path = folder.file("save");
  Mlp model;
  const Adadelta optimizer(model.parameters());
  TrainingState state{.step = 7,
                      .epoch = 1,
                      .samples = 64,
                      .seed = 9,
                      .model = "mlp",
                      .optimizer = "adadelta",
                      .random = {{{1, 2, 3}, {4, 5, ~uint64_t{0}}}}};
  save_checkpoint(path, state, model, optimizer);
  state.samples = 128;
  CHECK(save_checkpoint(path, state, model, optimizer) == path + "/step-000007");
  CHECK(find_checkpoint(path) == path + "/step-000007");
  const TrainingState loaded = load_training_state(find_checkpoint(path));
  CHECK(loaded.samples == 128);
  CHECK(loaded.seed == 9);
  CHECK(loaded.random.at(0).init.offset == 3);
  CHECK(loaded.random.at(0).dropout.offset == ~uint64_t{0});
  // A writer that was killed leaves nothing that counts.
  std::filesystem::create_directories(path + "/.new-step-000008");
  CHECK(find_checkpoint(path) == path + "/step-000007");
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    entries += entry.path().filename().string().starts_with(".old") ? 100 : 1;
  }
  CHECK(entries == 3);  // the checkpoint, latest, and the one that was begun
  CHECK_THROWS_AS(find_checkpoint(folder.path()), Error);
}
