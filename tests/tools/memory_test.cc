// What training the programs' own models holds, by category, to the byte.
#include <catch2/catch.hpp>

#include "tenon/core/rank_context.h"
#include "tenon/distributed/comm/local_group.h"
#include "tenon/distributed/ddp/ddp.h"
#include "tenon/optim/adadelta.h"
#include "tenon/tools/models.h"

namespace tenon {
namespace {

int64_t live(Category category) { return rank_context().memory->live(category); }

void expect_bytes(Category category, int64_t wanted) {
  TENON_CHECK(live(category) == wanted, "test", name_of(category), " holds ", live(category),
              " bytes, wanted ", wanted);
}

// P parameters in f32: 4 P bytes of parameters, 8 P of Adadelta's state, and 4 P of gradients:
// once, in the buckets under DDP (each rounded up to 64 bytes), else by themselves.
template <class Model>
void train_and_count(ProcessGroup group, bool with_ddp) {
  Model model;
  std::unique_ptr<Ddp<Model>> ddp;
  if (with_ddp) ddp = std::make_unique<Ddp<Model>>(model, group);
  Adadelta optimizer(model.parameters(), {.lr = 1});
  const Tensor targets = from_vector({1, 2}, {2}, {.dtype = DType::i64});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor images = rand({2, 1, 28, 28}, {.category = Category::other});
    cross_entropy(ddp ? (*ddp)(images) : call_module(model, images), targets).backward();
    optimizer.step();
  }
  int64_t padded = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    padded += (4 * parameter.tensor.numel() + 63) / 64 * 64;
  }
  const int64_t bytes = 4 * model.parameter_count();
  expect_bytes(Category::parameter, bytes);
  expect_bytes(Category::optimizer, 2 * bytes);
  expect_bytes(Category::gradient, with_ddp ? 0 : bytes);
  expect_bytes(Category::bucket, with_ddp ? padded : 0);
}

TEST_CASE("the CNN and the MLP hold exactly what the formula says") {
  CHECK_NOTHROW(run_ranks(2, [](ProcessGroup group) {
    train_and_count<tools::Cnn>(group, true);
    train_and_count<tools::Mlp>(group, true);
  }));
  CHECK_NOTHROW(run_ranks(1, [](ProcessGroup group) {
    train_and_count<tools::Cnn>(group, false);
    train_and_count<tools::Mlp>(group, false);
  }));
}

}  // namespace
}  // namespace tenon
