#include "tenon/tests/comm/collective_cases.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/tests/support/ranks.h"

namespace tenon::testing {
namespace {

const std::vector<int64_t> kSizes{0, 1, 3, 5, 7, 15, 17, 1000, 4099};
const std::vector<DType> kReducible{DType::f32, DType::bf16, DType::f16, DType::f64, DType::i64};
const std::vector<DType> kAll{DType::f32, DType::f64, DType::f16, DType::bf16,
                              DType::i64, DType::i32, DType::u8,  DType::boolean};

// Memory of this group that holds any tensor of these cases twice over.
Tensor make(ProcessGroup& group, bool window, int64_t count, DType dtype) {
  if (!window) return empty({count}, {.dtype = dtype});
  const auto storage = group.allocate(static_cast<size_t>(count) * size_of(dtype) + 64,
                                      Category::bucket, default_device());
  return Tensor(storage, dtype, {count});
}

void fill(const Tensor& tensor, const std::function<double(int64_t)>& value) {
  std::vector<char> bytes(tensor.nbytes());
  dispatch_all(tensor.dtype(), "fill", [&]<class T>() {
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const T element = static_cast<T>(value(i));
      std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &element, sizeof(T));
    }
  });
  copy_bytes(tensor.raw_data(), tensor.device(), bytes.data(), kCpu, bytes.size());
}

void expect_values(const Tensor& tensor, const std::function<double(int64_t)>& value,
                   const std::string& what) {
  const std::vector<double> given = tensor.to_vector();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double element = given[static_cast<size_t>(i)];
    if (element == value(i)) continue;
    fail("test", what, ", element ", i, " of ", describe(tensor), ": given ", element, ", wanted ",
         value(i));
  }
}

// Small integers, exact in every dtype; differs by rank and element.
double input_value(int rank, int64_t i) { return static_cast<double>((i * 5 + rank * 3) % 7); }

double reduced(ReduceOp op, int ranks, int64_t i) {
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
  return op == ReduceOp::mean ? result / ranks : result;
}

// A mean of three ranks has no exact value: as the dtype rounds it.
double rounded(DType dtype, double value) {
  double result = 0;
  dispatch_numeric(dtype, "rounded", [&]<class T>() {
    result = static_cast<double>(static_cast<Compute<T>>(static_cast<T>(value)));
  });
  return result;
}

void check_reduction(ProcessGroup& group, bool window, DType dtype, ReduceOp op, int64_t count) {
  const int ranks = group.size();
  const std::string what = str(name_of(op), window ? " in a window" : " in ordinary memory");
  const auto wanted = [&](int64_t i) {
    double value = reduced(op, ranks, i);
    if (op == ReduceOp::mean && dtype != DType::f64) {
      value = static_cast<float>(reduced(ReduceOp::sum, ranks, i)) / static_cast<float>(ranks);
    }
    return rounded(dtype, value);
  };
  const Tensor whole = make(group, window, count * ranks, dtype);
  fill(whole, [&](int64_t i) { return input_value(group.rank(), i); });
  const Tensor part = empty({count}, {.dtype = dtype});
  group.reduce_scatter(part, whole, op).wait();
  const int64_t first = group.rank() * count;
  expect_values(
      part, [&](int64_t i) { return wanted(first + i); }, "reduce_scatter " + what);
  expect_values(
      whole, [&](int64_t i) { return input_value(group.rank(), i); }, "its input");

  const Tensor own = whole.alias(first, {count});
  group.reduce_scatter(own, whole, op).wait();
  expect_values(
      own, [&](int64_t i) { return wanted(first + i); }, "reduce_scatter in place, " + what);

  fill(whole, [&](int64_t i) { return input_value(group.rank(), i); });
  group.all_reduce(whole, op).wait();
  expect_values(whole, wanted, "all_reduce " + what);
}

void check_move(ProcessGroup& group, bool window, DType dtype, int64_t count) {
  const int ranks = group.size();
  const int rank = group.rank();
  const auto value = [](int from, int64_t i) { return static_cast<double>((i + from) % 2); };
  const Tensor whole = make(group, window, count * ranks, dtype);
  const Tensor part = empty({count}, {.dtype = dtype});
  const auto gathered = [&](int64_t i) { return value(static_cast<int>(i / count), i % count); };
  fill(part, [&](int64_t i) { return value(rank, i); });
  group.all_gather(whole, part).wait();
  expect_values(whole, gathered, "all_gather");

  fill(whole, [](int64_t) { return 0.0; });
  const Tensor own = whole.alias(rank * count, {count});
  fill(own, [&](int64_t i) { return value(rank, i); });
  group.all_gather(whole, own).wait();
  expect_values(whole, gathered, "all_gather in place");

  const Tensor received = make(group, window, count * ranks, dtype);
  fill(whole, [&](int64_t i) { return value(rank + static_cast<int>(i / count), i % count); });
  group.all_to_all(received, whole).wait();
  expect_values(
      received, [&](int64_t i) { return value(static_cast<int>(i / count) + rank, i % count); },
      "all_to_all");

  for (int root = 0; root < ranks; ++root) {
    fill(whole, [&](int64_t i) { return value(rank, i); });
    group.broadcast(whole, root).wait();
    expect_values(
        whole, [&](int64_t i) { return value(root, i); }, "broadcast");
  }
}

// Values whose sums round.
float rough_value(int rank, int64_t i) {
  const auto mixed = static_cast<uint32_t>(i * 2654435761u + static_cast<uint32_t>(rank) * 40503u);
  return (static_cast<float>(mixed % 100003) - 50000.0f) / 977.0f;
}

template <class T>
T reference(int first, int end, int64_t i, int divisor) {
  Compute<T> sum = static_cast<Compute<T>>(static_cast<T>(rough_value(first, i)));
  for (int rank = first + 1; rank < end; ++rank) {
    sum += static_cast<Compute<T>>(static_cast<T>(rough_value(rank, i)));
  }
  return static_cast<T>(sum / static_cast<Compute<T>>(divisor));
}

template <class T>
T reference_over_nodes(int ranks, int per_node, int64_t i) {
  if (per_node <= 0 || per_node >= ranks) return reference<T>(0, ranks, i, ranks);
  Compute<T> sum = 0;
  for (int first = 0; first < ranks; first += per_node) {
    const T node = reference<T>(first, std::min(first + per_node, ranks), i, 1);
    sum = first == 0 ? static_cast<Compute<T>>(node) : sum + static_cast<Compute<T>>(node);
  }
  return static_cast<T>(sum / static_cast<Compute<T>>(ranks));
}

template <class T>
void check_bits_of(ProcessGroup& group, int64_t count, int per_node) {
  const int ranks = group.size();
  std::vector<T> wanted(static_cast<size_t>(count * ranks));
  for (int64_t i = 0; i < count * ranks; ++i) {
    wanted[static_cast<size_t>(i)] = reference_over_nodes<T>(ranks, per_node, i);
  }
  const auto expect_bits = [&](const Tensor& tensor, int64_t from, const char* what) {
    if (tensor.numel() == 0) return;
    const Tensor host = copied_to(tensor, kCpu);
    expect(std::memcmp(host.raw_data(), wanted.data() + from, tensor.nbytes()) == 0, what, " of ",
           describe(tensor), ": the bits differ from the sum in rank order");
  };
  for (const bool window : {false, true}) {
    const Tensor whole = make(group, window, count * ranks, dtype_of<T>);
    const auto refill = [&] {
      fill(whole, [&](int64_t i) { return rough_value(group.rank(), i); });
    };
    refill();
    group.all_reduce(whole, ReduceOp::mean).wait();
    expect_bits(whole, 0, "all_reduce");
    refill();
    std::vector<Work> works;  // the same in uneven buckets
    for (int64_t begin = 0, size = 7; begin < whole.numel(); begin += size, size = size * 3 + 1) {
      const Tensor bucket = whole.alias(begin, {std::min(size, whole.numel() - begin)});
      works.push_back(group.all_reduce(bucket, ReduceOp::mean));
    }
    for (Work& work : works) work.wait();
    expect_bits(whole, 0, "all_reduce in buckets");
    refill();
    const Tensor part = empty({count}, {.dtype = dtype_of<T>});
    group.reduce_scatter(part, whole, ReduceOp::mean).wait();
    expect_bits(part, group.rank() * count, "reduce_scatter");
  }
}

}  // namespace

void check_reductions(ProcessGroup group) {
  for (const bool window : {false, true}) {
    for (const DType dtype : kReducible) {
      for (const int64_t count : kSizes) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
          if (op == ReduceOp::mean && dtype == DType::i64) continue;
          check_reduction(group, window, dtype, op, count);
        }
      }
    }
  }
}

void check_moves(ProcessGroup group) {
  for (const bool window : {false, true}) {
    for (const DType dtype : kAll) {
      for (const int64_t count : kSizes) check_move(group, window, dtype, count);
    }
  }
}

void check_messages(ProcessGroup group) {
  const int ranks = group.size();
  const int next = (group.rank() + 1) % ranks;
  const int previous = (group.rank() + ranks - 1) % ranks;
  for (const int64_t count : {0, 1, 17, 300000}) {
    const Tensor first = full({count}, group.rank());
    const Tensor second = full({count}, 100 + group.rank());
    const Tensor got_first = empty({count});
    const Tensor got_second = empty({count});
    Work receive_first = group.recv(got_first, previous);
    Work receive_second = group.recv(got_second, previous);
    const Tensor sum = full({5}, 1.0);
    Work reduce = group.all_reduce(sum, ReduceOp::sum);
    Work send_first = group.send(first, next);
    group.send(second, next).wait();
    send_first.wait();
    receive_first.wait();
    receive_second.wait();
    reduce.wait();
    expect_values(
        got_first, [&](int64_t) { return previous; }, "the first message");
    expect_values(
        got_second, [&](int64_t) { return 100 + previous; }, "the second message");
    expect_values(
        sum, [&](int64_t) { return ranks; }, "the sum in between");
  }
}

void check_bits(ProcessGroup group, int ranks_per_node) {
  // The last is more than one block of messages.
  for (const int64_t count : std::vector<int64_t>{1, 15, 4099, 1200000 / group.size() + 1}) {
    check_bits_of<float>(group, count, ranks_per_node);
    if (count < 10000) {
      check_bits_of<BFloat16>(group, count, ranks_per_node);
      check_bits_of<Float16>(group, count, ranks_per_node);
      check_bits_of<double>(group, count, ranks_per_node);
    }
  }
  group.set_delay([](int rank, std::string_view, uint64_t sequence) {
    return static_cast<int64_t>((static_cast<uint64_t>(rank) * 7 + sequence * 3) % 11) * 100;
  });
  check_bits_of<float>(group, 1000, ranks_per_node);
  group.set_delay(nullptr);
}

void check_works_in_flight(ProcessGroup group) {
  ProcessGroup a = group.split(0, group.rank());
  ProcessGroup b = group.split(0, -group.rank());
  group.set_delay([](int rank, std::string_view, uint64_t sequence) {
    return static_cast<int64_t>(sequence % 16 == static_cast<uint64_t>(rank) ? 300 : 0);
  });
  for (int round = 0; round < 100; ++round) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (ProcessGroup* each : {&a, &group, &b}) {
      tensors.push_back(full({1 + round * 7}, round));
      works.push_back(each->all_reduce(tensors.back(), ReduceOp::sum));
      static_cast<void>(each->all_reduce(full({33}, 1.0), ReduceOp::max));  // dropped
    }
    for (Work& work : works) work.wait();
    for (const Tensor& tensor : tensors) {
      expect_values(
          tensor, [&](int64_t) { return round * group.size(); }, "a sum in flight");
    }
  }
  group.set_delay(nullptr);
  group.barrier().wait();
}

void check_split(ProcessGroup group) {
  const int color = group.rank() % 2;
  ProcessGroup half = group.split(color, -group.rank());
  const int members = (group.size() + 1 - color) / 2;
  expect(half.size() == members, "size of a split: given ", half.size(), ", wanted ", members);
  const int wanted_rank = members - 1 - group.rank() / 2;
  expect(half.rank() == wanted_rank, "rank in a split: given ", half.rank(), ", wanted ",
         wanted_rank);
  for (const bool window : {false, true}) {
    const Tensor ranks = make(half, window, half.size(), DType::i64);
    const Tensor mine = full({1}, group.rank(), {.dtype = DType::i64});
    half.all_gather(ranks, mine).wait();
    expect_values(
        ranks, [&](int64_t i) { return color + 2 * (members - 1 - i); }, "split ranks");
  }
  // A window of the whole group in a collective of a part of it.
  const Tensor whole = make(group, true, 1000, DType::f32);
  fill(whole, [&](int64_t) { return group.rank(); });
  half.all_reduce(whole, ReduceOp::max).wait();
  const int highest = color + 2 * (members - 1);
  expect_values(
      whole, [&](int64_t) { return highest; }, "a maximum in a wider window");
  group.barrier().wait();
}

void check_counting(ProcessGroup group) {
  TrafficCounters& traffic = rank_context().traffic;
  traffic.reset();
  const Tensor whole = zeros({group.size() * 10}, {.dtype = DType::bf16});
  const Tensor part = zeros({10}, {.dtype = DType::bf16});
  group.all_reduce(whole, ReduceOp::sum, {.tag = "ddp", .index = 3}).wait();
  group.all_reduce(part, ReduceOp::sum, {.tag = "ddp", .blocking = true}).wait();
  group.all_gather(whole, part, {.tag = "fsdp"}).wait();
  group.reduce_scatter(part, whole, ReduceOp::sum, {.tag = "fsdp"}).wait();
  group.barrier().wait();
  const int64_t bytes = group.size() * 20;
  expect(traffic.of("ddp") == Traffic{2, bytes + 20}, "traffic of ddp");
  expect(traffic.of("fsdp") == Traffic{2, 2 * bytes}, "traffic of fsdp");
  expect(traffic.of("user") == Traffic{1, 0}, "traffic of the barrier");
  const std::vector<Event> events = rank_context().ring->events();
  const Event& first = events[events.size() - 5];
  expect(std::string(first.op) == "all_reduce" && std::string(first.tag) == "ddp" &&
             first.index == 3 && first.bytes == bytes && first.kind == EventKind::collective,
         "the event of the first collective: ", first.op, " ", first.tag, " ", first.index);
  expect(first.launch_ns <= first.start_ns && first.start_ns <= first.end_ns,
         "the times of an event are not in order");
}

void check_arguments(ProcessGroup group) {
  const Tensor x = zeros({4, 6});
  const Tensor turned = x.as_strided({6, 4}, {1, 6});
  const int ranks = group.size();
  const auto wrong = [&](const std::function<Work()>& call, const char* part) {
    expect_error([&] { call().wait(); }, part);
  };
  wrong([&] { return group.all_reduce(turned, ReduceOp::sum); }, "not contiguous");
  wrong([&] { return group.all_reduce(Tensor(), ReduceOp::sum); }, "undefined");
  wrong([&] { return group.all_reduce(zeros({2}, {.dtype = DType::i32}), ReduceOp::sum); },
        "no reduction of i32");
  wrong([&] { return group.all_reduce(zeros({2}, {.dtype = DType::i64}), ReduceOp::mean); },
        "no mean of i64");
  wrong([&] { return group.all_gather(zeros({ranks * 3 + 1}), zeros({3})); }, "do not fit");
  wrong([&] { return group.all_gather(zeros({ranks * 3}, {.dtype = DType::f64}), zeros({3})); },
        "dtype");
  const Tensor whole = zeros({ranks * 8 + 8}).alias(0, {ranks * 8});
  wrong([&] { return group.all_gather(whole, whole.alias(group.rank() * 8 + 1, {8})); }, "overlap");
  wrong([&] { return group.reduce_scatter(whole.alias(0, {7}), whole, ReduceOp::sum); },
        "do not fit");
  wrong([&] { return group.all_to_all(whole, whole); }, "overlap");
  wrong([&] { return group.broadcast(whole, ranks); }, "not in the group");
  wrong([&] { return group.send(whole, group.rank()); }, "this rank itself");
  expect_error([&] { static_cast<void>(group.split(-1, 0)); }, "color");
  group.barrier().wait();
}

}  // namespace tenon::testing
