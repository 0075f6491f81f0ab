// Times the ops of a training step and compares each with what the machine can do, measured in the
// same run: memory bandwidth for ops that move data, multiply-adds for those that compute.
//   bench_ops --threads 1 --filter conv
//   bench_ops --dtype bf16 --json ops.json
#include <cstdio>

#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/world.h"
#include "tenon/tools/cli.h"
#include "tenon/tools/machine_ceilings.h"
#include "tenon/tools/op_bench.h"
#include "tenon/tools/op_timer.h"
#include "tenon/tools/output_file.h"
#include "tenon/tools/result_table.h"
#include "tenon/tools/threads.h"

namespace {

using namespace tenon;
using namespace tenon::tools;

struct Flags {
  int threads = 0;
  std::string dtype = "f32";
  std::string device = "cpu";
  std::string filter;
  int64_t size = 4 << 20;
  int64_t sequences = 8;
  int64_t tokens = 256;
  double max_seconds = 0.1;
  std::string json;
};

void add_flags(CommandLine& line, Flags& flags) {
  line.add("--threads", flags.threads, "Threads; 0: all cores").at_least(0);
  line.add_choice("--dtype", flags.dtype, {"f32", "f64", "bf16", "f16"}, "Element type");
  line.add_choice("--device", flags.device, {"cpu", "cuda"}, "Where to compute");
  line.add("--filter", flags.filter, "Only ops whose name holds this text");
  line.add("--size", flags.size, "Elements of ops that may have any size").at_least(1024);
  line.add("--sequences", flags.sequences, "Sequences of the GPT's ops").at_least(1);
  line.add("--tokens", flags.tokens, "Tokens of each of those sequences").at_least(1);
  line.add("--max-seconds", flags.max_seconds, "Seconds for each op and each ceiling").above(0);
  line.add("--json", flags.json, "File for rows, ceilings and the environment");
}

std::vector<OpEntry> chosen_ops(const Flags& flags) {
  std::vector<OpEntry> chosen;
  std::string names;
  for (const auto& list : {compute_ops(), memory_ops(), gpt_ops()}) {
    for (const OpEntry& op : list) {
      if (!op.exists_for(dtype_from_name(flags.dtype))) continue;
      if (op.name.find(flags.filter) != std::string::npos) chosen.push_back(op);
      if (names.find(op.name) == std::string::npos) names += (names.empty() ? "" : ", ") + op.name;
    }
  }
  if (chosen.empty()) {
    throw Error(
        str("[flags] no op's name holds ", flags.filter, ", wanted part of one of: ", names),
        ErrorKind::usage);
  }
  return chosen;
}

void print_head(const MachineCeilings& ceilings, const Flags& flags) {
  std::printf("# %s, %d threads; best of the runs in %g s\n", flags.dtype.c_str(), flags.threads,
              flags.max_seconds);
  const Device device = default_device();
  if (device != kCpu) {
    std::printf("# %s\n", runtime(device.type).describe(device.index).c_str());
  }
  std::printf(
      "# ceilings: copy %.1f GB/s, triad %.1f GB/s, %s multiply-adds %.1f GFLOP/s "
      "(one thread %.1f)\n",
      ceilings.copy_gb, ceilings.triad_gb, name_of(ceilings.dtype), ceilings.gflop,
      ceilings.gflop_one);
  std::printf("# above 100 %%: data in caches, reads without writes%s\n",
              size_of(dtype_from_name(flags.dtype)) == 2 ? ", 16-bit instructions" : "");
  std::printf("%-24s %-22s %12s %10s %-8s %8s  %s\n", "op", "shape", "time (us)", "rate", "",
              "share", "of");
}

Json measure(const OpEntry& op, const MachineCeilings& ceilings, const Flags& flags) {
  const OpRun run =
      op.setup({dtype_from_name(flags.dtype), flags.size, flags.sequences, flags.tokens});
  const double us = best_us(run.run, flags.max_seconds);
  const double rate = run.work / us / 1e3;
  const double share = rate / (run.computes ? ceilings.gflop : ceilings.bandwidth());
  return {{"op", op.name},
          {"shape", run.shape},
          {"dtype", flags.dtype},
          {"device", flags.device},
          {"us", us},
          {"rate", rate},
          {"unit", run.computes ? "GFLOP/s" : "GB/s"},
          {"share_percent", 100 * share},
          {"ceiling",
           run.computes ? str(name_of(ceilings.dtype), " multiply-adds") : "memory bandwidth"}};
}

void print_row(const Json& row) {
  const auto text = [&](const char* name) { return row.at(name).get<std::string>(); };
  const auto number = [&](const char* name) { return row.at(name).get<double>(); };
  std::printf("%-24s %-22s %12.1f %10.2f %-8s %7.1f%%  %s\n", text("op").c_str(),
              text("shape").c_str(), number("us"), number("rate"), text("unit").c_str(),
              number("share_percent"), text("ceiling").c_str());
  std::fflush(stdout);
}

void write_results(const Json& rows, const MachineCeilings& ceilings, const Flags& flags) {
  write_json(flags.json, {{"rows", rows},
                          {"ceilings",
                           {{"copy_gb_per_s", ceilings.copy_gb},
                            {"triad_gb_per_s", ceilings.triad_gb},
                            {"multiply_add_dtype", name_of(ceilings.dtype)},
                            {"multiply_add_gflop_per_s", ceilings.gflop},
                            {"multiply_add_gflop_per_s_one_thread", ceilings.gflop_one}}},
                          {"size", flags.size},
                          {"sequences", flags.sequences},
                          {"tokens", flags.tokens},
                          {"max_seconds", flags.max_seconds},
                          {"environment", environment(1, flags.threads)}});
}

int run(World& world, int argc, char** argv) {
  Flags flags;
  CommandLine line("Times ops against what the machine can do.");
  add_flags(line, flags);
  if (const auto status = line.parse(argc, argv, world.rank() == 0)) return *status;
  if (world.size() > 1) {
    throw Error("[flags] bench_ops is for a single process, without mpirun", ErrorKind::usage);
  }
  check_output_file("--json", flags.json);
  const std::vector<OpEntry> ops = chosen_ops(flags);
  if (flags.device == "cuda") set_default_device(world.use(DeviceType::cuda));
  flags.threads = use_threads(flags.threads, world);
  const MachineCeilings ceilings =
      measure_ceilings(dtype_from_name(flags.dtype), flags.size, flags.max_seconds);
  print_head(ceilings, flags);
  Json rows = Json::array();
  for (const OpEntry& op : ops) {
    rows.push_back(measure(op, ceilings, flags));
    print_row(rows.back());
  }
  if (!flags.json.empty()) write_results(rows, ceilings, flags);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_main(argc, argv, [&](tenon::World& world) { return run(world, argc, argv); });
}
