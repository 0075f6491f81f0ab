// Times collectives over message sizes, with the habits of nccl-tests.
//   mpirun -np 2 bench_collectives -b 1M -e 64M --compare-mpi
//   bench_collectives --backend local --ranks 4 --collective reduce_scatter
#include <cstdio>
#include <iostream>
#include <map>

#include "tenon/core/rank_context.h"
#include "tenon/distributed/comm/local_group.h"
#include "tenon/distributed/comm/world.h"
#include "tenon/tools/cli.h"
#include "tenon/tools/collective_bench.h"
#include "tenon/tools/output_file.h"
#include "tenon/tools/result_table.h"

namespace {

using namespace tenon;
using namespace tenon::tools;

const std::map<std::string, ReduceOp> kOps{{"sum", ReduceOp::sum},
                                           {"mean", ReduceOp::mean},
                                           {"avg", ReduceOp::mean},
                                           {"max", ReduceOp::max},
                                           {"min", ReduceOp::min}};
const std::map<std::string, DType> kTypes{
    {"float", DType::f32}, {"f32", DType::f32}, {"double", DType::f64},    {"f64", DType::f64},
    {"half", DType::f16},  {"f16", DType::f16}, {"bfloat16", DType::bf16}, {"bf16", DType::bf16},
    {"int64", DType::i64}, {"i64", DType::i64}, {"int32", DType::i32},     {"i32", DType::i32},
    {"uint8", DType::u8},  {"u8", DType::u8}};

struct Flags {
  CollectiveOptions bench;
  std::string op = "sum";
  std::string dtype = "float";
  std::string backend;
  std::string buffers = "window";
  int ranks = 2;
  std::string json;
};

template <class T>
std::vector<std::string> names(const std::map<std::string, T>& map) {
  std::vector<std::string> result;
  for (const auto& [name, ignored] : map) result.push_back(name);
  return result;
}

void add_flags(CommandLine& line, Flags& flags) {
  CollectiveOptions& bench = flags.bench;
  line.add_choice(
      "--collective", bench.collective,
      {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"},
      "What to time; send_recv: each rank to the next one");
  line.heading("As in nccl-tests");
  line.add("-b,--min-bytes", bench.min_bytes, "Smallest size in bytes; K, M, G are understood")
      .bytes();
  line.add("-e,--max-bytes", bench.max_bytes, "Largest size in bytes").bytes();
  line.add("-f,--factor", bench.factor, "From one size to the next").above(1);
  line.add_choice("-o,--op", flags.op, names(kOps), "Reduction");
  line.add_choice("-d,--dtype", flags.dtype, names(kTypes), "Element type");
  line.add("-r,--root", bench.root, "Root of a broadcast");
  line.add("-n,--iters", bench.iters, "Iterations that count").at_least(1);
  line.add("-w,--warmup", bench.warmup, "Iterations before").at_least(0);
  line.add("-c,--check", bench.check, "Iterations whose result is checked; 0: none").at_least(0);
  line.heading("Ranks and memory");
  line.add_choice("--backend", flags.backend, {"mpi", "local", "nccl"},
                  "mpi: the ranks of mpirun; local: threads; nccl: the ranks of mpirun, a CUDA "
                  "device each. Not given: mpi under mpirun");
  line.add("--ranks", flags.ranks, "Ranks of the local backend").at_least(1);
  line.add_choice("--buffers", flags.buffers, {"window", "plain"},
                  "Shared windows of the node, or ordinary memory");
  line.add_switch("--async", bench.async,
                  "Launch, then wait: the communication thread may do the work");
  line.heading("Comparison and output");
  line.add_switch("--compare-mpi", bench.compare,
                  "Time MPI_Allreduce or MPI_Reduce_scatter_block in alternation");
  line.add("--json", flags.json, "File for rows with percentiles and the environment");
}

void resolve(Flags& flags, World& world) {
  flags.bench.op = kOps.at(flags.op);
  flags.bench.dtype = kTypes.at(flags.dtype);
  flags.bench.window = flags.buffers == "window";
  if (flags.backend.empty()) flags.backend = world.size() > 1 ? "mpi" : "local";
  const auto usage = [](const std::string& text) { throw Error(text, ErrorKind::usage); };
  if (flags.backend == "local" && world.size() > 1) {
    usage("[flags] --backend local is for a single process, wanted mpi under mpirun");
  }
  if (flags.backend == "mpi" && world.size() == 1) {
    usage("[flags] --backend mpi needs ranks: mpirun -np 2 bench_collectives …");
  }
  if (flags.backend == "nccl") set_default_device(world.use(DeviceType::cuda));
  if (flags.bench.compare && flags.backend != "mpi") {
    usage("[flags] --compare-mpi needs mpirun");
  }
  if (flags.bench.min_bytes < 1 || flags.bench.max_bytes < flags.bench.min_bytes) {
    usage(str("[flags] wrong sizes: given ", flags.bench.min_bytes, " to ", flags.bench.max_bytes,
              " bytes, wanted 1 or more and ascending"));
  }
  if (flags.backend != "local") flags.ranks = world.size();
}

void print_head(const Flags& flags) {
  std::printf(
      "# %s, %d ranks, %s backend, %s buffers; times: median of %d iterations, slowest rank\n",
      flags.bench.collective.c_str(), flags.ranks, flags.backend.c_str(), flags.buffers.c_str(),
      flags.bench.iters);
  std::printf("#%54s %31s\n", "out-of-place", "in-place");
  std::printf("#%11s %12s %6s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s", "size", "count", "type",
              "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
              "#wrong");
  if (flags.bench.compare) std::printf(" %10s %10s %7s", "best", "MPI best", "MPI/our");
  std::printf("\n#%11s %12s %6s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s", "(B)", "(elements)", "",
              "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf(flags.bench.compare ? " %10s %10s\n" : "\n", "(us)", "(us)");
}

void print_times(const CollectiveTimes& times, int64_t bytes, double bus_factor) {
  if (times.us.empty()) {
    std::printf(" %9s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
    return;
  }
  const double us = times.quantile(0.5);
  const double bandwidth = static_cast<double>(bytes) / us / 1e3;
  std::printf(" %9.2f %7.2f %7.2f %6lld", us, bandwidth, bandwidth * bus_factor,
              static_cast<long long>(times.wrong));
}

double best(const CollectiveRow& row) {
  const double out = row.out_of_place.quantile(0);
  return row.in_place.us.empty() ? out : std::min(out, row.in_place.quantile(0));
}

void print_row(const CollectiveRow& row, const Flags& flags, const CollectiveBench& bench) {
  std::printf("%12lld %12lld %6s %6s %5d", static_cast<long long>(row.bytes),
              static_cast<long long>(row.count), name_of(flags.bench.dtype),
              bench.reduces() ? name_of(flags.bench.op) : "none",
              bench.has_root() ? flags.bench.root : -1);
  print_times(row.out_of_place, row.bytes, bench.bus_factor());
  print_times(row.in_place, row.bytes, bench.bus_factor());
  if (flags.bench.compare) {
    const double mpi = row.mpi.quantile(0);
    std::printf(" %10.2f %10.2f %7.2f", best(row), mpi, mpi / best(row));
  }
  std::printf("\n");
  std::fflush(stdout);
}

// The number of wrong elements.
int64_t run_bench(ProcessGroup group, const Flags& flags) {
  CollectiveBench bench(group, flags.bench);
  const bool prints = group.rank() == 0;
  if (prints) print_head(flags);
  if (prints && !group.note().empty()) std::printf("# %s\n", group.note().c_str());
  Json rows = Json::array();
  int64_t wrong = 0;
  for (const int64_t bytes : bench.sizes()) {
    const CollectiveRow row = bench.measure(bytes);
    wrong += row.out_of_place.wrong + row.in_place.wrong;
    if (prints) print_row(row, flags, bench);
    rows.push_back(to_json(row, flags.bench, bench.bus_factor()));
    if (flags.bench.compare) rows.back()["mpi_ratio_best"] = row.mpi.quantile(0) / best(row);
  }
  if (prints) std::printf("# wrong elements: %lld\n", static_cast<long long>(wrong));
  if (!prints || flags.json.empty()) return wrong;
  write_json(flags.json, {{"rows", rows},
                          {"backend", flags.backend},
                          {"buffers", flags.buffers},
                          {"iters", flags.bench.iters},
                          {"environment", environment(group.size(), num_threads())}});
  return wrong;
}

int run(World& world, int argc, char** argv) {
  Flags flags;
  CommandLine line("Times collectives over message sizes, with the habits of nccl-tests.");
  add_flags(line, flags);
  if (const auto status = line.parse(argc, argv, world.rank() == 0)) return *status;
  resolve(flags, world);
  if (world.rank() == 0) check_output_file("--json", flags.json);
  int64_t wrong = 0;
  if (flags.backend != "local") {
    wrong = run_bench(world.group(), flags);
  } else {
    run_ranks(flags.ranks, [&](ProcessGroup group) {
      const int64_t mine = run_bench(group, flags);
      if (group.rank() == 0) wrong = mine;
    });
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return tenon::run_main(argc, argv, [&](tenon::World& world) { return run(world, argc, argv); });
}
