// Times training steps of fixed models: ours against PyTorch's, DDP against the bare model, or DDP
// against ranks that train alone. Always by runs in alternation, in one process.
//   bench_train --model cnn --threads 2 --torch python3 --json cnn.json
//   mpirun -np 2 bench_train --model mlp --parallel ddp --independent
#include <csignal>
#include <iostream>

#include "tenon/core/rank_context.h"
#include "tenon/distributed/comm/world.h"
#include "tenon/tools/alternate.h"
#include "tenon/tools/cli.h"
#include "tenon/tools/output_file.h"
#include "tenon/tools/resident_memory.h"
#include "tenon/tools/result_table.h"
#include "tenon/tools/shared_folder.h"
#include "tenon/tools/threads.h"
#include "tenon/tools/torch_choice.h"
#include "tenon/tools/training_bench.h"

namespace {

using namespace tenon;
using namespace tenon::tools;

struct Options {
  std::string model = "mlp";
  std::string dtype = "f32";
  std::string parallel = "none";
  std::string device = "cpu";
  int threads = 0;
  int64_t steps = 30;
  int64_t warmup = 10;
  int64_t check_steps = 10;
  int pairs = 7;
  size_t bucket_bytes = DdpOptions().bucket_bytes;
  std::string torch;
  bool overhead = false;
  bool independent = false;
  std::string json;
};

void add_flags(CommandLine& line, Options& options) {
  line.add_choice("--model", options.model, bench_models(), "Model, with its batch and optimizer");
  line.add_choice("--dtype", options.dtype, {"f32", "bf16"},
                  "Precision; bf16 computes in bf16 and keeps parameters in f32");
  line.add_choice("--device", options.device, {"cpu", "cuda"}, "Where to compute, PyTorch too");
  line.add("--threads", options.threads, "Threads per rank; 0: cores / ranks of this node")
      .at_least(0);
  line.add("--steps", options.steps, "Steps of a run").at_least(1);
  line.add("--warmup", options.warmup, "Steps before the first run").at_least(0);
  line.add("--pairs", options.pairs, "Pairs of runs").at_least(1);
  line.add("--check-steps", options.check_steps,
           "Steps without dropout after which the losses are compared")
      .at_least(1);
  line.add_choice("--parallel", options.parallel, {"none", "ddp"}, "How ranks share the work");
  line.add("--bucket-bytes", options.bucket_bytes, "DDP: bytes of gradients per collective")
      .at_least(1);
  line.heading("Compared with");
  line.add("--torch", options.torch, "Python with PyTorch: the same training there");
  line.add_switch("--overhead", options.overhead, "The bare model, against DDP of one rank");
  line.add_switch("--independent", options.independent,
                  "Under mpirun: every rank training alone at the same time, against DDP");
  line.heading("Output");
  line.add("--json", options.json, "File for the row, all runs and the environment");
}

void resolve(Options& options, World& world) {
  const auto usage = [](const char* text) { throw Error(text, ErrorKind::usage); };
  if (!options.torch.empty() + options.overhead + options.independent > 1) {
    usage("[flags] --torch, --overhead and --independent are for one run each");
  }
  if (options.overhead && world.size() > 1) usage("[flags] --overhead is for a single rank");
  if (options.independent && world.size() == 1) {
    usage("[flags] --independent needs more than one rank: mpirun -np 2 bench_train …");
  }
  if (options.overhead || options.independent) options.parallel = "ddp";
  if (world.size() > 1 && options.parallel == "none") {
    usage("[flags] --parallel none is for a single rank, wanted ddp");
  }
  options.threads = use_threads(options.threads, world);
  if (options.device == "cuda") world.use(DeviceType::cuda);
}

void add_timings(Json& row, const std::string& name, const Timings& timings) {
  row[name + "_ms_best"] = timings.best();
  row[name + "_ms_median"] = timings.median();
}

class Bench {
 public:
  Bench(const World& world, const Options& options)
      : options_(options),
        group_(world.group()),
        recipe_(bench_recipe(options.model, group_.size())),
        folder_(group_),
        tensors_(make_bench_tensors(recipe_, group_.rank(),
                                    folder_.file(str("tensors.", group_.rank())))) {
    // The model is made on the device; weights and batches were made on the host, for the peer too.
    set_default_device(world.device());
    tensors_.move_batches(world.device());
    row_ = {{"model", recipe_.model},
            {"dtype", options.dtype},
            {"device", options.device},
            {"threads", options.threads},
            {"ranks", group_.size()}};
  }

  // The row of the table, and what only the JSON file holds.
  const Json& row() const { return row_; }
  const Json& details() const { return details_; }

  void run() {
    const ResidentMemoryWatch memory;
    TrainingBench ours(recipe_, options_.dtype, tensors_, parallelism(options_.parallel == "ddp"));
    const double loss = ours.check(options_.check_steps);
    if (options_.warmup > 0) ours.run(options_.warmup);
    const auto run_ours = [&] {
      return timed_run(group_, [&] { return ours.run(options_.steps); });
    };
    if (options_.overhead || options_.independent) {
      against_bare(run_ours);
    } else if (options_.torch.empty()) {
      Timings timings;
      for (int i = 0; i < options_.pairs; ++i) timings.ms.push_back(run_ours());
      add_timings(row_, "ours", timings);
      details_["ours_runs_ms"] = timings.ms;
      row_["ours_peak_bytes"] = peak_bytes(memory);
      row_["loss_ours"] = loss;
    } else {
      against_torch(run_ours, memory, loss);
    }
    row_["forward_ms"] = ours.phase_ms(Phase::forward);
    row_["backward_ms"] = ours.phase_ms(Phase::backward);
    row_["comm_exposed_ms"] = ours.phase_ms(Phase::exposed);
    row_["optimizer_ms"] = ours.phase_ms(Phase::optimizer);
    row_["page_faults"] = ours.page_faults();
  }

 private:
  // Resident bytes of the process; on a device the bytes of tensors there.
  static int64_t peak_bytes(const ResidentMemoryWatch& memory) {
    return default_device() == kCpu ? memory.peak_growth() : rank_context().memory->peak();
  }

  Parallelism parallelism(bool ddp) const {
    Parallelism result{group_, {}};
    if (ddp) result.ddp = DdpOptions{.bucket_bytes = options_.bucket_bytes};
    return result;
  }

  void against_torch(const std::function<double()>& run_ours, const ResidentMemoryWatch& memory,
                     double loss) {
    Json choice;
    const auto peer = best_torch_peer({options_.torch, recipe_, options_.dtype, options_.device,
                                       options_.threads, options_.warmup, options_.steps},
                                      group_, folder_, choice);
    const double peer_loss =
        peer->ask(str("check ", options_.check_steps)).at("loss").get<double>();
    const auto run_peer = [&] {
      return timed_run(group_, [&] { return peer->run(options_.steps); });
    };
    const TimingPair pair = alternate(options_.pairs, run_ours, run_peer);
    add_timings(row_, "ours", pair.a);
    add_timings(row_, "torch", pair.b);
    row_["ratio"] = pair.b.median() / pair.a.median();
    row_["ours_peak_bytes"] = peak_bytes(memory);
    row_["torch_peak_bytes"] = peer->ask("memory").at("peak");
    row_["loss_ours"] = loss;
    row_["loss_torch"] = peer_loss;
    details_["peer"] = choice;
    details_["ours_runs_ms"] = pair.a.ms;
    details_["torch_runs_ms"] = pair.b.ms;
  }

  // `ours` runs under DDP; the other one without.
  void against_bare(const std::function<double()>& run_ours) {
    TrainingBench bare(recipe_, options_.dtype, tensors_, parallelism(false));
    if (options_.warmup > 0) bare.run(options_.warmup);
    const TimingPair pair = alternate(options_.pairs, run_ours, [&] {
      return timed_run(group_, [&] { return bare.run(options_.steps); });
    });
    const std::string name = options_.overhead ? "bare" : "independent";
    add_timings(row_, "ddp", pair.a);
    add_timings(row_, name, pair.b);
    row_["ratio"] = pair.a.median() / pair.b.median();
    details_["ddp_runs_ms"] = pair.a.ms;
    details_[name + "_runs_ms"] = pair.b.ms;
  }

  const Options& options_;
  ProcessGroup group_;
  const BenchRecipe recipe_;
  const SharedFolder folder_;
  BenchTensors tensors_;
  Json row_;
  Json details_;
};

int run(World& world, int argc, char** argv) {
  Options options;
  CommandLine line("Times training steps of fixed models.");
  add_flags(line, options);
  if (const auto status = line.parse(argc, argv, world.rank() == 0)) return *status;
  resolve(options, world);
  if (world.rank() == 0) check_output_file("--json", options.json);
  std::signal(SIGPIPE, SIG_IGN);  // a peer that died is an error of ours, with a text
  Bench bench(world, options);
  bench.run();
  if (world.rank() != 0) return 0;
  print_table(bench.row());
  if (options.json.empty()) return 0;
  write_json(options.json, {{"rows", Json::array({bench.row()})},
                            {"details", bench.details()},
                            {"steps", options.steps},
                            {"pairs", options.pairs},
                            {"environment", environment(world.size(), options.threads)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_main(argc, argv, [&](tenon::World& world) { return run(world, argc, argv); });
}
