#include "tenon/tests/ddp/ddp_cases.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tenon/autograd/ops.h"
#include "tenon/core/rank_context.h"
#include "tenon/optim/adadelta.h"
#include "tenon/optim/adam.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/support/ranks.h"

namespace tenon::testing {
namespace {

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<NamedTensor> parameters) {
  if (name == "sgd") {
    return std::make_unique<Sgd>(std::move(parameters),
                                 SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  }
  if (name == "adam") return std::make_unique<Adam>(std::move(parameters), AdamOptions{.lr = 1e-2});
  if (name == "adamw") {
    return std::make_unique<AdamW>(std::move(parameters),
                                   AdamWOptions{.lr = 1e-2, .weight_decay = 0.1});
  }
  return std::make_unique<Adadelta>(std::move(parameters), AdadeltaOptions{.lr = 1});
}

// Samples begin … end of a step, the same on every rank.
struct Samples {
  Tensor x;
  Tensor targets;
};
Samples samples(uint64_t step, int64_t begin, int64_t end, DType dtype) {
  Generator generator(99, step);
  const Tensor all = randn({64, 7}, {.dtype = DType::f64}, &generator);
  std::vector<double> targets;
  for (int64_t i = begin; i < end; ++i)
    targets.push_back(static_cast<double>((i * 7 + static_cast<int64_t>(step)) % 5));
  return {clone(to(narrow(all, 0, begin, end - begin), dtype)),
          from_vector(targets, {end - begin}, {.dtype = DType::i64})};
}

std::vector<double> values_of(const std::vector<NamedTensor>& parameters) {
  std::vector<double> values;
  for (const NamedTensor& parameter : parameters) {
    const std::vector<double> one = parameter.tensor.to_vector();
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

// Forward, backward and optimizer step over this rank's part of each micro-batch.
void train_step(Ddp<SmallMlp>& ddp, Optimizer& optimizer, const ProcessGroup& group,
                const TrainConfig& config, int step) {
  optimizer.zero_grad();
  const int64_t total = config.batch - (config.uneven && step % 3 == 2 ? 1 : 0);
  for (int micro = 0; micro < config.accumulate; ++micro) {
    const auto number = static_cast<uint64_t>(step * config.accumulate + micro);
    const int64_t begin = total * group.rank() / group.size();
    const int64_t end = total * (group.rank() + 1) / group.size();
    const Samples mine = samples(number, begin, end, config.dtype);
    const double divisor = static_cast<double>(total * config.accumulate) / group.size();
    const Tensor loss = cross_entropy(ddp(mine.x), mine.targets, {.divisor = divisor});
    if (micro + 1 < config.accumulate) {
      const NoSync scope = ddp.no_sync();
      loss.backward();
    } else {
      loss.backward();
    }
  }
  optimizer.step();
}

int64_t padded(int64_t elements, int64_t size) { return (elements * size + 63) / 64 * 64; }

// Bytes of SmallMlp's gradients in the buckets.
int64_t bucket_bytes(const Module& model) {
  int64_t bytes = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    bytes +=
        padded(parameter.tensor.numel(), static_cast<int64_t>(size_of(parameter.tensor.dtype())));
  }
  return bytes;
}

constexpr DdpOptions kSmallBuckets{.bucket_bytes = 600, .first_bucket_bytes = 200};

}  // namespace

Tensor SmallMlp::forward(const Tensor& x) { return fc3(tanh(fc2(relu(fc1(x))))); }

std::vector<double> train_small_mlp(ProcessGroup group, const TrainConfig& config) {
  const DefaultDType scope(config.dtype);
  seed(static_cast<uint64_t>(7 + group.rank()));  // wrapping makes the ranks agree
  SmallMlp model;
  if (group.size() == 1) seed(7);
  Ddp ddp(model, group, config.ddp);
  const auto optimizer = make_optimizer(config.optimizer, ddp.parameters());
  for (int step = 0; step < config.steps; ++step) {
    rank_context().step = step;
    train_step(ddp, *optimizer, group, config, step);
  }
  return values_of(ddp.parameters());
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, largest = 1;
  for (size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(a.at(i) - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return std::isfinite(difference) ? difference / largest : INFINITY;
}

void check_theorem(ProcessGroup group) {
  struct Case {
    const char* optimizer;
    DType dtype;
    double tolerance;
  };
  const Case cases[] = {{"sgd", DType::f64, 1e-12},   {"adam", DType::f64, 1e-12},
                        {"adamw", DType::f64, 1e-12}, {"adadelta", DType::f64, 1e-12},
                        {"sgd", DType::f32, 1e-5},    {"adadelta", DType::f32, 1e-5}};
  for (const Case& item : cases) {
    for (const int accumulate : {1, 3}) {
      for (const bool uneven : {false, true}) {
        TrainConfig config{.optimizer = item.optimizer,
                           .dtype = item.dtype,
                           .batch = group.size() * 3,
                           .accumulate = accumulate,
                           .uneven = uneven,
                           .ddp = kSmallBuckets};
        const std::vector<double> reference = train_small_mlp(ProcessGroup(), config);
        const double difference = relative_difference(train_small_mlp(group, config), reference);
        expect(difference <= item.tolerance, item.optimizer, " ", item.dtype, ", accumulate ",
               accumulate, uneven ? ", uneven" : "", ": ", group.size(),
               " ranks differ from one by ", difference);
      }
    }
  }
}

void check_bits(ProcessGroup group) {
  const TrainConfig config{
      .dtype = DType::f32, .steps = 6, .batch = group.size() * 3, .ddp = kSmallBuckets};
  const std::vector<double> reference = train_small_mlp(group, config);
  TrainConfig one_bucket = config;
  one_bucket.ddp = {};
  expect(train_small_mlp(group, one_bucket) == reference, "another bucket cap changed bits");
  for (const int slow : {0, group.size() - 1}) {
    group.set_delay([slow](int rank, std::string_view, uint64_t sequence) {
      return rank == slow ? static_cast<int64_t>(sequence * 2654435761u % 3000) : 0;
    });
    const std::vector<double> delayed = train_small_mlp(group, config);
    group.set_delay(nullptr);
    expect(delayed == reference, "delays on rank ", slow, " changed bits");
  }
}

void check_traffic(ProcessGroup group) {
  SmallMlp model;
  Ddp ddp(model, group, kSmallBuckets);
  Sgd optimizer(ddp.parameters(), {.lr = 0.1});
  const TrainConfig config{.dtype = DType::f32, .batch = group.size() * 2, .accumulate = 1};
  const Traffic nothing;
  TrafficCounters& traffic = rank_context().traffic;
  for (int step = 0; step < 4; ++step) {
    traffic.reset();
    train_step(ddp, optimizer, group, config, step);
    const Traffic wanted =
        group.size() == 1
            ? nothing
            : Traffic{static_cast<int64_t>(ddp.plan().buckets.size()), bucket_bytes(model)};
    expect(traffic.of("ddp") == wanted, "step ", step, ": ", traffic.of("ddp").calls, " calls of ",
           traffic.of("ddp").bytes, " bytes, wanted ", wanted.calls, " of ", wanted.bytes);
    const int64_t rebuild = step == 1 && group.size() > 1 ? 1 : 0;
    expect(traffic.of("setup").calls == rebuild, "step ", step, ": ", traffic.of("setup").calls,
           " setup calls, wanted ", rebuild);
    expect(traffic.by_tag().size() <= 2, "step ", step, " has other collectives");
  }
  expect(ddp.plan().buckets.size() >= 3, "wanted several buckets");
  traffic.reset();
  train_step(ddp, optimizer, group,
             {.dtype = DType::f32, .batch = group.size() * 2, .accumulate = 4}, 5);
  const int64_t wanted = group.size() == 1 ? 0 : static_cast<int64_t>(ddp.plan().buckets.size());
  expect(traffic.of("ddp").calls == wanted, "accumulation: ", traffic.of("ddp").calls,
         " calls, wanted those of one backward, ", wanted);
}

void check_memory(ProcessGroup group) {
  MemoryCounters& memory = *rank_context().memory;
  int64_t before[kCategoryCount];
  for (int i = 0; i < kCategoryCount; ++i) before[i] = memory.live(static_cast<Category>(i));
  const auto grown = [&](Category category) {
    return memory.live(category) - before[static_cast<int>(category)];
  };
  SmallMlp model;
  Ddp ddp(model, group, kSmallBuckets);
  Adam optimizer(ddp.parameters(), {.lr = 1e-3});
  const TrainConfig config{.dtype = DType::f32, .batch = group.size() * 2};
  for (int step = 0; step < 3; ++step) train_step(ddp, optimizer, group, config, step);
  const int64_t parameters = 4 * model.parameter_count();
  const auto check = [&](Category category, int64_t wanted) {
    expect(grown(category) == wanted, name_of(category), ": ", grown(category), " bytes, wanted ",
           wanted);
  };
  check(Category::parameter, parameters);
  check(Category::bucket, bucket_bytes(model));  // the only copy of the gradients
  check(Category::gradient, 0);
  check(Category::optimizer, 2 * parameters);
}

void check_different_models(ProcessGroup group) {
  SmallMlp same;
  struct Other : Module {
    Child<nn::Linear> fc1{this, "fc1", 7, 15};
    Child<nn::Linear> fc2{this, "fc2", 15, 18};
    Tensor forward(const Tensor& x) { return fc2(fc1(x)); }
  } other;
  const bool different = group.rank() == 1;
  expect_error(
      [&] {
        if (different) {
          const Ddp ddp(other, group);
        } else {
          const Ddp ddp(same, group);
        }
      },
      different ? "at entry 2 rank 1 has parameter 'fc2.weight' f32 (18, 15), rank 0 has parameter "
                  "'fc2.weight' f32 (17, 15)"
                : "rank 1 differs from rank 0");
}

}  // namespace tenon::testing
