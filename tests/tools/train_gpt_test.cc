#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "tenon/tests/tools/program.h"

using namespace tenon;
using namespace tenon::testing;

namespace {

// A text that a small model soon knows by heart.
void write_text(const std::string& path, int sentences) {
  std::ofstream file(path);
  for (int i = 0; i < sentences; ++i) file << "the quick brown fox jumps over the lazy dog.\n";
}

// Of a small model on folder's text, changed by `flags`.
Words train(const ScratchDirectory& folder, const Words& flags) {
  const Words defaults{"--data",       folder.file("text"),
                       "--threads",    "1",
                       "--dim",        "16",
                       "--layers",     "2",
                       "--heads",      "2",
                       "--context",    "16",
                       "--batch",      "4",
                       "--warmup",     "2",
                       "--eval-every", "100000"};
  Words command{program("train_gpt")};
  for (size_t i = 0; i < defaults.size(); i += 2) {
    if (std::find(flags.begin(), flags.end(), defaults[i]) != flags.end()) continue;
    command.insert(command.end(), {defaults[i], defaults[i + 1]});
  }
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

Outcome must_run(const Words& command) {
  const Outcome outcome = run_program(command);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  return outcome;
}

double validation_loss(const Outcome& outcome) {
  const std::string word = "validation loss ";
  const size_t at = outcome.out.rfind(word);
  REQUIRE(at != std::string::npos);
  return std::stod(outcome.out.substr(at + word.size()));
}

}  // namespace

TEST_CASE("gpt and llama learn a text and go on with it") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 60);
  for (const char* arch : {"gpt", "llama"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      const Outcome outcome =
          must_run(train(folder, {"--arch", arch, "--dtype", dtype, "--max-steps", "300", "--lr",
                                  "0.01", "--batch", "8", "--sample", "30", "--prompt", "the quick",
                                  "--temperature", "0"}));
      CHECK(validation_loss(outcome) < 0.5);
      expect_parts(outcome.out, {"tok/s", "MFU", "the quick brown fox jumps over"});
    }
  }
}

TEST_CASE("the losses of train_gpt do not depend on the number of ranks") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  for (const char* arch : {"gpt", "llama"}) {
    const auto run = [&](int ranks, const char* batch) {
      const std::string log = folder.file("log.jsonl");
      must_run(on_ranks(ranks, train(folder, {"--arch", arch, "--dtype", "f64", "--max-steps", "6",
                                              "--batch", batch, "--log", log})));
      return losses(log);
    };
    const auto one = run(1, "6"), two = run(2, "3"), three = run(3, "2");
    REQUIRE(one.size() == 6);
    for (size_t i = 0; i < one.size(); ++i) {
      CHECK(two[i] == Approx(one[i]).epsilon(1e-10));
      CHECK(three[i] == Approx(one[i]).epsilon(1e-10));
    }
  }
}

TEST_CASE("a resumed train_gpt is the uninterrupted one to the bit, with dropout and recompute") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  for (const int ranks : {1, 2}) {
    const std::string whole = folder.file(str("whole", ranks)),
                      parts = folder.file(str("parts", ranks));
    const auto run = [&](const Words& more) {
      Words flags{"--dropout", "0.1", "--recompute"};
      flags.insert(flags.end(), more.begin(), more.end());
      must_run(on_ranks(ranks, train(folder, flags)));
    };
    run({"--max-steps", "10", "--schedule-steps", "10", "--save", whole, "--log", whole + ".log"});
    run({"--max-steps", "5", "--schedule-steps", "10", "--save", parts, "--log", parts + ".log"});
    run({"--max-steps", "10", "--schedule-steps", "10", "--save", parts, "--log", parts + ".log",
         "--resume", parts});
    CHECK(losses(whole + ".log") == losses(parts + ".log"));
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "training.json"}) {
      const std::string name = std::string("/step-000010/") + file;
      CHECK(read_file(whole + name) == read_file(parts + name));
    }
  }
  const Outcome other =
      run_program(train(folder, {"--layers", "3", "--resume", folder.file("whole1")}));
  CHECK(other.status == 2);
  expect_parts(other.err, {"layers", "given 3"});
}

TEST_CASE("recompute changes no bit of train_gpt's losses") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  const auto run = [&](Words flags) {
    flags.insert(flags.end(),
                 {"--max-steps", "5", "--dropout", "0.2", "--log", folder.file("log")});
    must_run(train(folder, flags));
    return losses(folder.file("log"));
  };
  CHECK(run({}) == run({"--recompute"}));
}

TEST_CASE("from the third step on train_gpt holds the same memory after every step") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  const std::string log = folder.file("log");
  for (const Words& flags : {Words{}, Words{"--dtype", "bf16"}, Words{"--recompute"}}) {
    Words all{"--max-steps", "8", "--log", log};
    all.insert(all.end(), flags.begin(), flags.end());
    must_run(on_ranks(2, train(folder, all)));
    const std::vector<tools::Json> steps = read_log(log, "step");
    REQUIRE(steps.size() == 8);
    // The peak depends on when a collective gives its tensors back.
    const auto live = [&](size_t i) {
      tools::Json memory = steps[i]["memory"];
      memory.erase("peak");
      return memory;
    };
    for (size_t i = 3; i < steps.size(); ++i) CHECK(live(i) == live(2));
  }
}

TEST_CASE("train_gpt refuses bad data with status 4 and says what is wrong") {
  const ScratchDirectory folder;
  const auto refused = [&](const std::string& content, const Words& flags, const Words& parts) {
    std::ofstream(folder.file("text")) << content;
    const Outcome outcome = run_program(train(folder, flags));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 4);
    expect_parts(outcome.err, parts);
  };
  refused("", {}, {"text"});
  refused("a", {}, {"text"});
  refused("a short text", {"--context", "64"}, {"text", "64"});
  Words binary = train(folder, {});
  binary[2] = folder.file("tokens.bin");
  std::ofstream(folder.file("tokens.bin")) << std::string(1024, '\xff');
  const Outcome outcome = run_program(binary);
  CHECK(outcome.status == 4);
  expect_parts(outcome.err, {"tokens.bin"});
  const Outcome missing = run_program({program("train_gpt")});
  CHECK(missing.status == 2);
  expect_parts(missing.err, {"--data is missing"});
}

TEST_CASE("train_gpt knows before it trains what it could not do after") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  const auto refused = [&](const Words& flags, const Words& parts) {
    const Outcome outcome = run_program(train(folder, flags));
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    expect_parts(outcome.err, parts);
  };
  refused({"--sample", "5", "--prompt", "QUICK"}, {"--prompt", "Q"});
  refused({"--sample", "5", "--prompt", ""}, {"--prompt"});
  refused({"--sample", "5", "--top-p", "0"}, {"--top-p", "above 0"});
  refused({"--export", folder.file("none/model.safetensors")}, {"--export", "none"});
  refused({"--export", folder.file("")}, {"--export", "folder"});
  refused({"--save", folder.file("text/save")}, {"--save", "text"});
}

TEST_CASE("train_gpt exports weights with Hugging Face's names and begins with them") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  for (const Words& arch : {Words{"--arch", "gpt", "--bias", "--gelu-tanh"},
                            Words{"--arch", "llama", "--heads", "4", "--kv-heads", "2"}}) {
    const std::string file = folder.file("model.safetensors");
    const auto run = [&](Words flags) {
      flags.insert(flags.begin(), arch.begin(), arch.end());
      return validation_loss(must_run(train(folder, flags)));
    };
    const double trained = run({"--max-steps", "30", "--lr", "0.01", "--export", file});
    // A step of no size: what is evaluated are the weights that were read.
    const double read = run({"--max-steps", "1", "--lr", "0", "--min-lr", "0", "--warmup", "0",
                             "--seed", "7", "--init-from", file});
    CHECK(read == trained);
    CHECK(read_file(file).find(arch[1] == "gpt" ? "h.1.mlp.c_fc.weight" : "self_attn.q_proj") !=
          std::string::npos);
  }
}

TEST_CASE("a loss that is no number ends train_gpt and names the step") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  const Outcome outcome = run_program(on_ranks(
      2, train(folder, {"--lr", "1e30", "--warmup", "0", "--clip", "0", "--max-steps", "20"})));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 1);
  expect_parts(outcome.err, {"the loss of step", "nan", "--lr"});
}

TEST_CASE("SIGTERM ends train_gpt after a step, with a checkpoint") {
  const ScratchDirectory folder;
  write_text(folder.file("text"), 20);
  Words command = train(folder, {"--max-steps", "1000000", "--save", folder.file("save"), "--log",
                                 folder.file("log")});
  Words stopped{"timeout", "--signal=TERM", "--preserve-status", "3"};
  stopped.insert(stopped.end(), command.begin(), command.end());
  const Outcome outcome = run_program(stopped, 30);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  expect_parts(outcome.out, {"stopped by SIGTERM after step", "which is saved"});
  CHECK(read_log(folder.file("log")).back().at("reason") == "sigterm");
  CHECK(!read_file(folder.file("save/latest")).empty());
}
