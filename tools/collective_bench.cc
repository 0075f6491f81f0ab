#include "tenon/tools/collective_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"

namespace tenon::tools {
namespace {

// Small whole numbers, whose sums every dtype holds exactly; they repeat every kPeriod elements.
constexpr int64_t kPeriod = 8;
double input_value(int rank, int64_t i) {
  return static_cast<double>((i + rank * int64_t{3}) % kPeriod);
}

double reduced_value(ReduceOp op, int ranks, int64_t i) {
  double result = input_value(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = input_value(rank, i);
    if (op == ReduceOp::max) {
      result = std::max(result, next);
    } else if (op == ReduceOp::min) {
      result = std::min(result, next);
    } else {
      result += next;
    }
  }
  return result;
}

template <class T>
T converted(double sum, ReduceOp op, int ranks) {
  using C = Compute<T>;
  const C value = static_cast<C>(sum);
  return static_cast<T>(op == ReduceOp::mean ? value / static_cast<C>(ranks) : value);
}

}  // namespace

double CollectiveTimes::quantile(double q) const {
  std::vector<double> sorted = us;
  std::ranges::sort(sorted);
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(q * last))];
}

CollectiveBench::CollectiveBench(ProcessGroup group, const CollectiveOptions& options)
    : group_(group), options_(options), call_{.tag = "bench", .blocking = !options.async} {
  if (reduces() && !is_floating(options.dtype) && options.dtype != DType::i64) {
    throw Error(str("[bench] no reduction of ", options.dtype, ", wanted a floating dtype or i64"),
                ErrorKind::usage);
  }
  if (reduces() && options.op == ReduceOp::mean && options.dtype == DType::i64) {
    throw Error("[bench] no mean of i64, wanted a floating dtype or sum", ErrorKind::usage);
  }
  if (options.root < 0 || options.root >= group.size()) {
    throw Error(str("[bench] wrong root: given ", options.root, ", wanted 0 to ", group.size() - 1),
                ErrorKind::usage);
  }
  const int64_t elements =
      options.max_bytes / static_cast<int64_t>(size_of(options.dtype)) + group.size();
  pattern_ =
      empty({elements}, {.dtype = options.dtype, .device = kCpu, .category = Category::other});
  dispatch_numeric(options.dtype, "bench", [&]<class T>() {
    for (int64_t i = 0; i < elements; ++i) {
      pattern_.data<T>()[i] = static_cast<T>(input_value(group.rank(), i));
    }
  });
  whole_ = make(elements);
  other_ = make(elements);
  if (!options.compare) return;
  peer_ = std::make_unique<MpiPeer>(options.collective, options.dtype, options.op);
  peer_whole_ = empty_like(pattern_, Category::other);
  peer_other_ = empty_like(pattern_, Category::other);
  refill(peer_other_);  // takes its pages
}

Tensor CollectiveBench::make(int64_t elements) {
  const size_t bytes = static_cast<size_t>(elements) * size_of(options_.dtype);
  const Device device = default_device();
  const auto storage = options_.window ? group_.allocate(bytes, Category::other, device)
                                       : std::make_shared<Storage>(bytes, device, Category::other);
  const Tensor tensor(storage, options_.dtype, {elements});
  refill(tensor);
  return tensor;
}

bool CollectiveBench::reduces() const {
  return options_.collective == "all_reduce" || options_.collective == "reduce_scatter";
}

// The whole buffer is made of one part per rank.
bool CollectiveBench::has_parts() const {
  return options_.collective == "all_gather" || options_.collective == "reduce_scatter" ||
         options_.collective == "all_to_all";
}

double CollectiveBench::bus_factor() const {
  const double ranks = group_.size();
  if (options_.collective == "all_reduce") return 2 * (ranks - 1) / ranks;
  return has_parts() ? (ranks - 1) / ranks : 1;
}

std::vector<int64_t> CollectiveBench::sizes() const {
  const int64_t unit =
      static_cast<int64_t>(size_of(options_.dtype)) * (has_parts() ? group_.size() : 1);
  std::vector<int64_t> result;
  for (double bytes = static_cast<double>(options_.min_bytes);
       bytes <= static_cast<double>(options_.max_bytes); bytes *= options_.factor) {
    const int64_t size = static_cast<int64_t>(bytes) / unit * unit;
    if (size > 0 && (result.empty() || result.back() != size)) result.push_back(size);
  }
  return result;
}

void CollectiveBench::refill(const Tensor& tensor) const {
  copy_bytes(tensor.raw_data(), tensor.device(), pattern_.raw_data(), kCpu, tensor.nbytes());
}

Work CollectiveBench::launch(const Tensor& output, const Tensor& input) {
  const std::string& name = options_.collective;
  if (name == "all_reduce") return group_.all_reduce(output, options_.op, call_);
  if (name == "all_gather") return group_.all_gather(output, input, call_);
  if (name == "reduce_scatter") return group_.reduce_scatter(output, input, options_.op, call_);
  if (name == "broadcast") return group_.broadcast(output, options_.root, call_);
  return group_.all_to_all(output, input, call_);
}

// Each rank sends to the next one.
void CollectiveBench::send_around(const Tensor& output, const Tensor& input) {
  const int ranks = group_.size();
  const Call call{.tag = "bench"};
  Work receive = group_.recv(output, (group_.rank() + ranks - 1) % ranks, call);
  group_.send(input, (group_.rank() + 1) % ranks, call).wait();
  receive.wait();
}

CollectiveBench::Placement CollectiveBench::in_place(int64_t count) {
  const std::string& name = options_.collective;
  if (name == "all_to_all" || name == "send_recv") return {};
  const int64_t parts = has_parts() ? group_.size() : 1;
  const Tensor whole = first(whole_, count * parts);
  const Tensor own = has_parts() ? whole.alias(group_.rank() * count, {count}) : whole;
  const bool gathers = name == "all_gather";
  return {.prepare = [=, this] { refill(gathers ? own : whole); },
          .run = [=, this] { launch(gathers ? whole : own, gathers ? own : whole).wait(); },
          .result = gathers ? whole : own};
}

CollectiveBench::Placement CollectiveBench::out_of_place(int64_t count) {
  const std::string& name = options_.collective;
  const int64_t parts = has_parts() ? group_.size() : 1;
  const Tensor input = first(whole_, name == "all_gather" ? count : count * parts);
  const Tensor output = first(other_, name == "reduce_scatter" ? count : count * parts);
  const auto prepare = [=, this] { refill(input); };
  if (name == "send_recv") {
    return {.prepare = prepare, .run = [=, this] { send_around(output, input); }, .result = output};
  }
  if (has_parts()) {
    return {
        .prepare = prepare, .run = [=, this] { launch(output, input).wait(); }, .result = output};
  }
  // These work in place: the copy is part of the time.
  return {.prepare = prepare,
          .run =
              [=, this] {
                copy_bytes(output.raw_data(), output.device(), input.raw_data(), input.device(),
                           input.nbytes());
                launch(output, output).wait();
              },
          .result = output};
}

CollectiveRow CollectiveBench::measure(int64_t bytes) {
  const auto elements = bytes / static_cast<int64_t>(size_of(options_.dtype));
  CollectiveRow row{.bytes = bytes, .count = has_parts() ? elements / group_.size() : elements};
  std::vector<Placement> placements{out_of_place(row.count), in_place(row.count)};
  if (peer_) {
    const Tensor whole = first(peer_whole_, elements);
    const Tensor output = first(peer_other_, elements);
    const auto prepare = [=, this] { refill(whole); };
    placements.push_back({.prepare = prepare, .run = [=, this] { peer_->run(output, whole); }});
    placements.push_back({.prepare = prepare, .run = [=, this] { peer_->run_in_place(whole); }});
  }
  std::vector<CollectiveTimes> times = alternate(placements, row.count);
  row.out_of_place = std::move(times[0]);
  row.in_place = std::move(times[1]);
  if (peer_) row.mpi = times[2].quantile(0) < times[3].quantile(0) ? times[2] : times[3];
  return row;
}

std::vector<CollectiveTimes> CollectiveBench::alternate(const std::vector<Placement>& placements,
                                                        int64_t count) {
  std::vector<CollectiveTimes> times(placements.size());
  for (int i = -options_.warmup; i < options_.iters; ++i) {
    for (size_t p = 0; p < placements.size(); ++p) {
      const Placement& placement = placements[p];
      if (!placement.run) continue;
      placement.prepare();
      synchronize(default_device());
      group_.barrier({.tag = "bench", .blocking = true}).wait();
      const auto start = std::chrono::steady_clock::now();
      placement.run();
      synchronize(default_device());
      const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
      if (i >= 0) times[p].us.push_back(us.count());
      if (i >= options_.iters - options_.check && placement.result.defined()) {
        times[p].wrong += count_wrong(placement.result, count);
      }
    }
  }
  for (CollectiveTimes& each : times) {
    if (each.us.empty()) continue;
    const Tensor slowest =
        from_data(each.us, {static_cast<int64_t>(each.us.size())}, Category::other, kCpu);
    group_.all_reduce(slowest, ReduceOp::max).wait();
    each.us = slowest.to_vector();
    const Tensor wrong =
        full({1}, static_cast<double>(each.wrong), {.dtype = DType::i64, .device = kCpu});
    group_.all_reduce(wrong, ReduceOp::sum).wait();
    each.wrong = wrong.item<int64_t>();
  }
  return times;
}

// What element i of this rank's result comes from; a mean is not divided yet.
double CollectiveBench::expected(int64_t i, int64_t count) const {
  const std::string& name = options_.collective;
  const int ranks = group_.size();
  const int rank = group_.rank();
  if (name == "all_reduce") return reduced_value(options_.op, ranks, i);
  if (name == "reduce_scatter") return reduced_value(options_.op, ranks, rank * count + i);
  if (name == "broadcast") return input_value(options_.root, i);
  if (name == "send_recv") return input_value((rank + ranks - 1) % ranks, i);
  const int from = static_cast<int>(i / count);
  return input_value(from, name == "all_gather" ? i % count : rank * count + i % count);
}

int64_t CollectiveBench::count_wrong(const Tensor& on_device, int64_t count) const {
  const Tensor result = on_device.device() == kCpu ? on_device : copied_to(on_device, kCpu);
  int64_t wrong = 0;
  const ReduceOp op = reduces() ? options_.op : ReduceOp::sum;
  dispatch_numeric(options_.dtype, "bench", [&]<class T>() {
    const T* data = result.data<T>();
    // A part at a time, because the values repeat within one.
    for (int64_t begin = 0; begin < result.numel(); begin += count) {
      T wanted[kPeriod];
      for (int64_t i = 0; i < std::min(kPeriod, count); ++i) {
        wanted[i] = converted<T>(expected(begin + i, count), op, group_.size());
      }
      for (int64_t i = 0; i < count; ++i) {
        const bool same = std::memcmp(&data[begin + i], &wanted[i % kPeriod], sizeof(T)) == 0;
        wrong += same ? 0 : 1;
      }
    }
  });
  return wrong;
}

Json to_json(const CollectiveRow& row, const CollectiveOptions& options, double bus_factor) {
  const auto times = [&](const CollectiveTimes& given) -> Json {
    if (given.us.empty()) return nullptr;
    const double median = given.quantile(0.5);
    const double gb_per_s = static_cast<double>(row.bytes) / median / 1e3;
    return {{"time_us", median},
            {"best_us", given.quantile(0)},
            {"p10_us", given.quantile(0.1)},
            {"p90_us", given.quantile(0.9)},
            {"p99_us", given.quantile(0.99)},
            {"worst_us", given.quantile(1)},
            {"algbw_gb_s", gb_per_s},
            {"busbw_gb_s", gb_per_s * bus_factor},
            {"wrong", given.wrong}};
  };
  Json json{{"collective", options.collective},
            {"size", row.bytes},
            {"count", row.count},
            {"type", name_of(options.dtype)},
            {"redop", name_of(options.op)},
            {"root", options.root},
            {"out_of_place", times(row.out_of_place)},
            {"in_place", times(row.in_place)}};
  if (!row.mpi.us.empty()) json["mpi"] = times(row.mpi);
  return json;
}

}  // namespace tenon::tools
