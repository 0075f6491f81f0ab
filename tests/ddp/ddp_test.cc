// DDP over ranks that are threads of this process.
#include <catch2/catch.hpp>

#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/norm.h"
#include "tenon/optim/sgd.h"
#include "tenon/tests/ddp/ddp_cases.h"
#include "tenon/tests/support/ranks.h"

namespace tenon {
namespace {

using namespace testing;

Tensor input(int64_t rows, double value = 1) { return full({rows, 7}, value); }

// Three layers, the last of which is used only when asked.
struct Branches : Module {
  Child<nn::Linear> trunk{this, "trunk", 7, 4};
  Child<nn::Linear> left{this, "left", 4, 2};
  Child<nn::Linear> right{this, "right", 4, 2};
  Tensor forward(const Tensor& x, bool with_right) {
    const Tensor hidden = trunk(x);
    return with_right ? left(hidden) + right(hidden) : left(hidden);
  }
};

TEST_CASE("N ranks with batch B are one rank with batch N B") {
  for (const int ranks : {1, 2, 3, 4}) run_ranks(ranks, check_theorem);
}

TEST_CASE("Delays in front of collectives and bucket caps change no bit") {
  for (const int ranks : {2, 3, 4}) run_ranks(ranks, check_bits);
}

TEST_CASE("A step has one all-reduce per bucket, and none with one rank") {
  for (const int ranks : {1, 2, 3}) run_ranks(ranks, check_traffic);
  check_traffic(ProcessGroup());
}

TEST_CASE("DDP holds parameters, one copy of the gradients and the optimizer's state") {
  for (const int ranks : {1, 2, 3}) run_ranks(ranks, check_memory);
}

TEST_CASE("A model that differs on one rank is named on every rank") {
  for (const int ranks : {2, 3}) run_ranks(ranks, check_different_models);
}

TEST_CASE("Every gradient is a view into a bucket, also after the rebuild and zero_grad") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group, {.bucket_bytes = 600, .first_bucket_bytes = 200});
    Sgd optimizer(ddp.parameters());
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      sum(ddp(input(2))).backward();
      for (const NamedTensor& parameter : ddp.parameters()) {
        expect(parameter.tensor.grad().storage()->category() == Category::bucket, parameter.name,
               " has its gradient elsewhere");
      }
    }
  });
}

TEST_CASE("Buckets are rebuilt once, in the order in which rank 0's gradients arrived") {
  run_ranks(2, [](ProcessGroup group) {
    // Registered first, used last: its gradient arrives first.
    struct Reversed : Module {
      Child<nn::Linear> last{this, "last", 16, 16};
      Child<nn::Linear> first{this, "first", 7, 16};
      Tensor forward(const Tensor& x) { return last(first(x)); }
    } model;
    Ddp ddp(model, group, {.bucket_bytes = 64, .first_bucket_bytes = 64});
    expect(ddp.plan().buckets.front().slices[0].parameter == 3, "starts in reverse order");
    sum(ddp(input(2))).backward();
    expect(ddp.plan().buckets.front().slices[0].parameter == 3, "not rebuilt before a forward");
    sum(ddp(input(2))).backward();
    const size_t front = ddp.plan().buckets.front().slices[0].parameter;
    expect(front == 0 || front == 1, "the last layer's gradient comes first, got parameter ",
           front);
    const BucketPlan rebuilt = ddp.plan();
    sum(ddp(input(2))).backward();
    for (size_t i = 0; i < rebuilt.buckets.size(); ++i) {
      expect(ddp.plan().buckets[i].slices[0].parameter == rebuilt.buckets[i].slices[0].parameter,
             "rebuilt again");
    }
  });
}

TEST_CASE("A rebuild keeps gradients that are already accumulated") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group, {.bucket_bytes = 300, .first_bucket_bytes = 100});
    {
      const NoSync scope = ddp.no_sync();
      sum(ddp(input(2, 1))).backward();
      sum(ddp(input(2, 2))).backward();  // the rebuild is in front of this one
    }
    sum(ddp(input(2, 3))).backward();
    std::vector<std::vector<double>> accumulated;
    for (const NamedTensor& p : ddp.parameters())
      accumulated.push_back(p.tensor.grad().to_vector());
    model.zero_grad();
    for (const double value : {1.0, 2.0, 3.0}) {
      const NoSync scope = ddp.no_sync();
      sum(model.forward(input(2, value))).backward();
    }
    size_t i = 0;
    for (const NamedTensor& p : ddp.parameters()) {
      expect(relative_difference(accumulated[i++], p.tensor.grad().to_vector()) < 1e-6, p.name,
             " lost part of its gradient");
    }
  });
}

TEST_CASE("Whether a backward synchronizes is decided when it runs, not in forward") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group);
    TrafficCounters& traffic = rank_context().traffic;
    const Tensor outside = sum(ddp(input(2)));
    traffic.reset();
    {
      const NoSync scope = ddp.no_sync();
      outside.backward();
    }
    expect(traffic.by_tag().empty(), "a backward inside no_sync communicated");
    Tensor inside;
    {
      const NoSync scope = ddp.no_sync();
      inside = sum(ddp(input(2)));
    }
    inside.backward();
    expect(traffic.of("ddp").calls > 0, "a backward outside no_sync did not communicate");
  });
}

TEST_CASE("sync_gradients averages what has accumulated, without a further backward") {
  run_ranks(3, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group);
    {
      const NoSync scope = ddp.no_sync();
      for (int i = 0; i < 4; ++i) {
        sum(ddp(input(2, group.rank() + 1))).backward();
      }
    }
    const double local = model.fc3->bias.grad().to_vector()[0];
    rank_context().traffic.reset();
    ddp.sync_gradients();
    expect(rank_context().traffic.of("ddp").calls == 1, "wanted one all-reduce");
    const double averaged = model.fc3->bias.grad().to_vector()[0];
    expect(local == 8 && averaged == 8, "wrong bias gradient ", local, " ", averaged);
    const double weight = model.fc1->weight.grad().to_vector()[0];
    Tensor check = from_vector({weight, -weight}, {2});
    group.all_reduce(check, ReduceOp::max).wait();
    expect(check.to_vector()[0] == -check.to_vector()[1], "ranks disagree");
  });
}

TEST_CASE("Bucket i starts before backward ends for all but the last") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group, {.bucket_bytes = 300, .first_bucket_bytes = 100});
    for (int step = 0; step < 3; ++step) {
      rank_context().step = step;
      sum(ddp(input(2))).backward();
    }
    int64_t end = 0;
    std::vector<int64_t> launches;
    for (const Event& event : rank_context().ring->events()) {
      if (event.step != 2) continue;
      if (std::string_view(event.op) == "backward_end") end = event.launch_ns;
      if (std::string_view(event.tag) == "ddp" && event.kind == EventKind::collective) {
        expect(event.index == static_cast<int>(launches.size()), "launched out of order");
        launches.push_back(event.launch_ns);
      }
    }
    expect(launches.size() == ddp.plan().buckets.size() && end > 0, "events are missing");
    for (size_t i = 0; i + 1 < launches.size(); ++i) {
      expect(launches[i] < end, "bucket ", i, " started after backward");
    }
  });
}

TEST_CASE("The collectives' own time is known when the device has got there") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group, {.bucket_bytes = 300, .first_bucket_bytes = 100});
    for (int step = 0; step < 2; ++step) {
      sum(ddp(input(2))).backward();
      const DdpStats stats = ddp.stats();
      synchronize(default_device());
      expect(stats.works.size() == ddp.plan().buckets.size(), "wrong buckets");
      expect(stats.comm_ns() > 0, "the collectives took no time");
      expect(stats.exposed.ns() >= 0, "backward waited for less than nothing");
    }
  });
}

TEST_CASE("A parameter without a gradient is named, with its rank") {
  CHECK_THROWS_WITH(run_ranks(2,
                              [](ProcessGroup group) {
                                Branches model;
                                Ddp ddp(model, group);
                                sum(ddp(input(2), group.rank() == 0)).backward();
                              }),
                    Catch::Matchers::Contains("rank 1") &&
                        Catch::Matchers::Contains("'right.weight', 'right.bias' got no gradient"));
}

TEST_CASE("With allow_unused a parameter that some rank used gets the average with zeros") {
  run_ranks(2, [](ProcessGroup group) {
    Branches model;
    Ddp ddp(model, group, {.allow_unused = true});
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      sum(ddp(input(3), group.rank() == 1)).backward();
      expect(model.right->bias.grad().to_vector()[0] == 1.5, "wanted (0 + 3) / 2");
    }
  });
}

TEST_CASE("With allow_unused a parameter that no rank used keeps no gradient") {
  run_ranks(2, [](ProcessGroup group) {
    Branches model;
    Ddp ddp(model, group, {.allow_unused = true});
    Sgd optimizer(ddp.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
    const std::vector<double> before = model.right->weight.to_vector();
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      sum(ddp(input(3), false)).backward();
      expect(!model.right->weight.grad().defined(), "has a gradient");
      optimizer.step();
    }
    expect(model.right->weight.to_vector() == before, "was updated");
  });
}

TEST_CASE("A layer that is frozen and unfrozen between steps is left out and taken in again") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group);
    Sgd optimizer(ddp.parameters(), {.lr = 0.1});
    const auto step = [&] {
      optimizer.zero_grad();
      rank_context().traffic.reset();
      sum(ddp(input(2, group.rank() + 1))).backward();
      optimizer.step();
      return rank_context().traffic.of("ddp").bytes;
    };
    const int64_t all = step();
    set_requires_grad(model.fc1->weight, false);
    const std::vector<double> frozen = model.fc1->weight.to_vector();
    expect(step() < all && model.fc1->weight.to_vector() == frozen, "a frozen layer moved");
    set_requires_grad(model.fc1->weight, true);
    expect(step() == all && model.fc1->weight.to_vector() != frozen, "an unfrozen one did not");
  });
}

TEST_CASE("The same layer used three times is reduced after its last use") {
  run_ranks(2, [](ProcessGroup group) {
    struct Recurrent : Module {
      Child<nn::Linear> cell{this, "cell", 7, 7};
      Tensor forward(const Tensor& x) { return cell(tanh(cell(tanh(cell(x))))); }
    };
    Recurrent shared, alone;
    Ddp ddp(shared, group);
    copy_(alone.cell->weight.detach(), shared.cell->weight);
    copy_(alone.cell->bias.detach(), shared.cell->bias);
    const Tensor mine = input(2, group.rank() + 1);
    sum(ddp(mine)).backward();
    ((sum(alone.forward(input(2, 1))) + sum(alone.forward(input(2, 2)))) * 0.5).backward();
    expect(relative_difference(shared.cell->weight.grad().to_vector(),
                               alone.cell->weight.grad().to_vector()) < 1e-5,
           "wrong average");
  });
}

TEST_CASE("Different seeds on the ranks: wrapping gives all of them rank 0's values") {
  run_ranks(3, [](ProcessGroup group) {
    seed(static_cast<uint64_t>(group.rank()));
    SmallMlp model;
    const Ddp ddp(model, group);
    const Tensor mine = model.fc2->weight.detach();
    Tensor all = empty({3, 17, 15});
    group.all_gather(all, mine).wait();
    for (int rank = 1; rank < 3; ++rank) {
      expect(select(all, 0, rank).to_vector() == select(all, 0, 0).to_vector(), "ranks differ");
    }
  });
}

TEST_CASE(
    "Buffers follow their policy before a training forward, and evaluation communicates nothing") {
  run_ranks(2, [](ProcessGroup group) {
    struct WithBuffers : Module {
      Child<nn::Linear> fc{this, "fc", 7, 3};
      Buffer shared{this, "shared", zeros({2}), BufferSync::broadcast};
      Buffer averaged{this, "averaged", zeros({2}), BufferSync::mean};
      Buffer own{this, "own", zeros({2}), BufferSync::local};
      Tensor forward(const Tensor& x) { return fc(x); }
    } model;
    Ddp ddp(model, group);
    for (Buffer* buffer : {&model.shared, &model.averaged, &model.own}) {
      *buffer = full({2}, group.rank() + 1.0);  // replaced objects are seen too
    }
    sum(ddp(input(2))).backward();
    expect(model.shared.to_vector()[0] == 1, "not rank 0's");
    expect(model.averaged.to_vector()[0] == 1.5, "not the mean");
    expect(model.own.to_vector()[0] == group.rank() + 1, "not its own");
    rank_context().traffic.reset();
    model.eval();
    if (group.rank() == 0) {
      const NoGrad no_grad;
      ddp(input(2));
    }
    expect(rank_context().traffic.by_tag().empty(), "evaluation communicated");
  });
}

TEST_CASE("A gradient that somebody moved to another slot comes back into the bucket") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group);
    set_grad_slot(model.fc3->bias, zeros({5}));
    sum(ddp(input(2, group.rank() + 1))).backward();
    expect(model.fc3->bias.grad().storage()->category() == Category::bucket, "not in the bucket");
    expect(model.fc3->bias.grad().to_vector()[0] == 2, "wrong gradient");
  });
}

TEST_CASE("A parameter added after wrapping is refused") {
  run_ranks(2, [](ProcessGroup group) {
    SmallMlp model;
    Ddp ddp(model, group);
    const Parameter late(&model, "late", zeros({3}));
    expect_error([&] { ddp(input(2)); }, "the model's parameters changed after it was wrapped");
  });
}

TEST_CASE("An exception in the middle of backward leaves DDP usable") {
  SmallMlp model;
  Ddp ddp(model, ProcessGroup());
  Tensor hidden = relu((*model.fc1).forward(input(2)));
  register_grad_hook(hidden, [](const Tensor&) { fail("test", "stop here"); });
  CHECK_THROWS_WITH(sum(model.fc3(model.fc2(hidden))).backward(),
                    Catch::Matchers::Contains("stop here"));
  model.zero_grad();
  sum(ddp(input(2))).backward();
  CHECK(model.fc3->bias.grad().to_vector()[0] == 2);
}

TEST_CASE("A model without anything to train is refused") {
  SmallMlp model;
  for (const NamedTensor& parameter : model.parameters())
    set_requires_grad(parameter.tensor, false);
  CHECK_THROWS_WITH(Ddp(model, ProcessGroup()), Catch::Matchers::Contains("nothing to train"));
}

TEST_CASE("loss_scale turns a rank's mean into its part of the global mean") {
  CHECK(loss_scale(2, 5, 2) == 0.8);
  CHECK(loss_scale(0, 5, 2) == 0);
  CHECK_THROWS(loss_scale(6, 5, 2));
}

}  // namespace
}  // namespace tenon
