#include "tenon/tools/checkpoint_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tenon/nn/atomic_file.h"
#include "tenon/nn/safetensors.h"
#include "tenon/nn/state.h"

namespace tenon::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kTraining = "training.json";
constexpr const char* kLatest = "latest";

[[noreturn]] void bad_data(const std::string& path, const std::string& text) {
  throw Error(str("[checkpoint] ", path, ": ", text), ErrorKind::bad_data);
}

json to_json(const PhiloxKey& key) { return {key.seed, key.stream, key.offset}; }

PhiloxKey to_key(const json& value) {
  return {value.at(0).get<uint64_t>(), value.at(1).get<uint64_t>(), value.at(2).get<uint64_t>()};
}

std::string to_text(const TrainingState& state) {
  json random = json::array();
  for (const RankRandom& rank : state.random) {
    random.push_back({{"init", to_json(rank.init)}, {"dropout", to_json(rank.dropout)}});
  }
  return json{{"step", state.step},
              {"epoch", state.epoch},
              {"samples", state.samples},
              {"seed", state.seed},
              {"model", state.model},
              {"optimizer", state.optimizer},
              {"config", json::parse(state.config)},
              {"random", std::move(random)}}
             .dump(2) +
         "\n";
}

TrainingState to_state(const json& fields) {
  TrainingState state;
  fields.at("step").get_to(state.step);
  fields.at("epoch").get_to(state.epoch);
  fields.at("samples").get_to(state.samples);
  fields.at("seed").get_to(state.seed);
  fields.at("model").get_to(state.model);
  fields.at("optimizer").get_to(state.optimizer);
  state.config = fields.value("config", json::object()).dump();
  for (const json& rank : fields.at("random")) {
    state.random.push_back({to_key(rank.at("init")), to_key(rank.at("dropout"))});
  }
  return state;
}

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text.data(), text.size());
  file.commit();
}

// A rename is on the disk when its folder is.
void flush_folder(const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

std::string save_checkpoint(const std::string& folder, const TrainingState& state,
                            const Module& model, const Optimizer& optimizer) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%06lld", static_cast<long long>(state.step));
  const fs::path target = fs::path(folder) / name;
  const fs::path temporary = fs::path(folder) / (std::string(".new-") + name);
  const fs::path replaced = fs::path(folder) / (std::string(".old-") + name);
  try {
    fs::create_directories(folder);
    fs::remove_all(temporary);
    fs::create_directory(temporary);
    save_module((temporary / kModel).string(), model);
    save_safetensors((temporary / kOptimizer).string(), optimizer.state_dict());
    write_file(temporary / kTraining, to_text(state));
    flush_folder(temporary);
    fs::remove_all(replaced);
    if (fs::exists(target)) fs::rename(target, replaced);
    fs::rename(temporary, target);
    flush_folder(folder);
    write_file(fs::path(folder) / kLatest, std::string(name) + "\n");
    fs::remove_all(replaced);
    return target.string();
  } catch (const fs::filesystem_error& error) {
    fail("checkpoint", "cannot write ", target.string(), ": ", error.what());
  }
}

std::string find_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) bad_data(path, "no such folder");
  if (fs::exists(fs::path(path) / kTraining, ignored)) return path;
  std::ifstream latest(fs::path(path) / kLatest);
  std::string name;
  if (!std::getline(latest, name) || name.empty()) {
    bad_data(path, str("holds no checkpoint: wanted a file ", kTraining, " or ", kLatest));
  }
  const fs::path checkpoint = fs::path(path) / name;
  if (!fs::is_directory(checkpoint, ignored)) {
    bad_data(checkpoint.string(), str("no such folder, but ", path, "/", kLatest, " names it"));
  }
  return checkpoint.string();
}

TrainingState load_training_state(const std::string& checkpoint) {
  const std::string path = (fs::path(checkpoint) / kTraining).string();
  std::ifstream file(path);
  if (!file) bad_data(path, "cannot be read");
  try {
    TrainingState state = to_state(json::parse(file));
    if (state.step < 0 || state.epoch < 0 || state.samples < 0 || state.random.empty()) {
      bad_data(path, "holds negative numbers or no rank");
    }
    return state;
  } catch (const json::exception& error) {
    bad_data(path, str("is damaged: ", error.what()));
  }
}

void load_weights(const std::string& checkpoint, const Module& model, Optimizer& optimizer) {
  load_module((fs::path(checkpoint) / kModel).string(), model);
  const std::string path = (fs::path(checkpoint) / kOptimizer).string();
  const std::vector<NamedTensor> state = load_safetensors(path).tensors;
  try {
    optimizer.load_state_dict(state);
  } catch (const Error& error) {
    throw Error(str(error.what(), "\n  in ", path), error.kind());
  }
}

}  // namespace tenon::tools
