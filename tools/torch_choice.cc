#include "tenon/tools/torch_choice.h"

#include <algorithm>
#include <limits>

#include "tenon/tools/alternate.h"

namespace tenon::tools {
namespace {

constexpr int kTries = 3;

struct Setting {
  bool malloc_tuned;
  bool channels_last;
};

std::unique_ptr<TorchPeer> start(const TorchRequest& request, const ProcessGroup& group,
                                 const SharedFolder& folder, const Setting& setting) {
  const std::map<std::string, std::string> tuned{{"MALLOC_TOP_PAD_", "268435456"},
                                                 {"MALLOC_TRIM_THRESHOLD_", "17179869184"},
                                                 {"MALLOC_MMAP_MAX_", "0"}};
  const std::vector<std::string> command{
      request.python,
      torch_peer_script(),
      "--model",
      request.recipe.model,
      "--dtype",
      request.dtype,
      "--device",
      request.device,
      "--optimizer",
      request.recipe.optimizer,
      "--lr",
      str(request.recipe.lr),
      "--threads",
      str(request.threads),
      "--channels-last",
      str(setting.channels_last),
      "--tensors",
      folder.file(str("tensors.", group.rank())),
      "--rank",
      str(group.rank()),
      "--ranks",
      str(group.size()),
      "--meet",
      folder.file(str("meet.", setting.malloc_tuned, setting.channels_last))};
  return std::make_unique<TorchPeer>(
      command, setting.malloc_tuned ? tuned : std::map<std::string, std::string>{});
}

double best_of_tries(TorchPeer& peer, const TorchRequest& request, const ProcessGroup& group) {
  peer.ask(str("run ", request.warmup + 1));
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kTries; ++i) {
    best = std::min(best, timed_run(group, [&] { return peer.run(request.steps); }));
  }
  return best;
}

}  // namespace

std::unique_ptr<TorchPeer> best_torch_peer(const TorchRequest& request, ProcessGroup group,
                                           const SharedFolder& folder, Json& choice) {
  std::unique_ptr<TorchPeer> best;
  double best_ms = std::numeric_limits<double>::max();
  for (const bool malloc_tuned : {false, true}) {
    for (const bool channels_last : {false, true}) {
      if (channels_last && request.recipe.model != "cnn") continue;
      auto peer = start(request, group, folder, {malloc_tuned, channels_last});
      const double ms = best_of_tries(*peer, request, group);
      if (ms >= best_ms) continue;
      best = std::move(peer);
      best_ms = ms;
      choice = {{"torch", best->greeting().at("torch")},
                {"malloc", malloc_tuned ? "tuned" : "stock"},
                {"layout", channels_last ? "channels-last" : "contiguous"}};
    }
  }
  return best;
}

}  // namespace tenon::tools
