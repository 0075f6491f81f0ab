// Gpt and Llama: sizes, cached generation, recompute, tied heads.
#include "tenon/nn/transformer.h"

#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/loss.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using Catch::Contains;
using nn::Gpt;
using nn::GptOptions;
using nn::KeyValueCache;
using nn::Llama;
using nn::LlamaOptions;

const GptOptions kGpt{.vocab = 17, .layers = 2, .heads = 2, .dim = 16, .context = 12};
const LlamaOptions kLlama{
    .vocab = 17, .layers = 2, .heads = 4, .kv_heads = 2, .dim = 16, .hidden = 24, .context = 12};

Tensor tokens_of(int64_t batch, int64_t length) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < batch * length; ++i) ids.push_back(i * 7 % 17);
  return from_data(ids, {batch, length});
}

TEST_CASE("GPT-2 has the parameters of the published model") {
  // 124,439,808 with 12 layers; per layer 12 d^2 + 13 d.
  const Gpt model({.vocab = 50257, .layers = 1, .heads = 12, .dim = 768, .context = 1024});
  CHECK(model.parameter_count() == 124439808 - 11 * (12 * 768 * 768 + 13 * 768));
}

template <class Model, class Options>
void check_cache(const Options& options) {
  seed(3);
  Model model(options);
  model.eval();
  const NoGrad no_grad;
  const Tensor tokens = tokens_of(2, 9), logits = model.forward(tokens);
  KeyValueCache cache = model.new_cache(2, 10);
  int64_t done = 0;
  for (const int64_t count : {4, 1, 3, 1}) {
    const Tensor part = model.forward(narrow(tokens, 1, done, count), &cache);
    CHECK(testing::max_error(part.to_vector(), narrow(logits, 1, done, count).to_vector()) < 1e-5);
    done += count;
  }
  CHECK_THROWS_WITH(model.forward(tokens_of(2, 2), &cache),
                    Contains("too many tokens: given 2 after 9, wanted at most 10 in all"));
  CHECK_THROWS_WITH(model.forward(tokens_of(1, 13)), Contains("too many tokens: given 13"));
}

TEST_CASE("Generating with a cache gives the logits of the whole text") {
  check_cache<Gpt>(kGpt);
  check_cache<Llama>(kLlama);
}

template <class Model, class Options>
std::vector<std::vector<double>> gradients(Options options, bool recompute) {
  seed(3);
  options.recompute = recompute;
  Model model(options);
  const Tensor tokens = tokens_of(2, 8);
  const Tensor loss = cross_entropy(model.forward(tokens), tokens);
  loss.backward();
  std::vector<std::vector<double>> result{loss.to_vector()};
  for (const NamedTensor& parameter : model.parameters()) {
    result.push_back(parameter.tensor.grad().to_vector());
  }
  return result;
}

TEST_CASE("Recompute changes no bit of loss and gradients, with dropout too") {
  GptOptions gpt = kGpt;
  gpt.dropout = 0.2;
  CHECK(gradients<Gpt>(gpt, true) == gradients<Gpt>(gpt, false));
  CHECK(gradients<Llama>(kLlama, true) == gradients<Llama>(kLlama, false));
}

TEST_CASE("A tied head is one parameter with one gradient") {
  const Gpt tied(kGpt);
  GptOptions options = kGpt;
  options.tied_head = false;
  const Gpt own(options);
  CHECK(own.parameters().size() == tied.parameters().size() + 1);
  CHECK(own.parameter_count() == tied.parameter_count() + 17 * 16);
}

TEST_CASE("In bf16 parameters and gradients stay f32 and the loss is close") {
  for (const bool llama : {false, true}) {
    double losses[2];
    for (const bool half : {false, true}) {
      seed(3);
      const Tensor tokens = tokens_of(2, 8);
      const auto run = [&](auto model) {
        if (half) model->set_compute_dtype(DType::bf16);
        const Tensor loss = cross_entropy(model->forward(tokens), tokens);
        loss.backward();
        for (const NamedTensor& parameter : model->parameters()) {
          CHECK(parameter.tensor.dtype() == DType::f32);
          CHECK(parameter.tensor.grad().dtype() == DType::f32);
        }
        return loss.item<double>();
      };
      losses[half ? 1 : 0] =
          llama ? run(std::make_unique<Llama>(kLlama)) : run(std::make_unique<Gpt>(kGpt));
    }
    CHECK(losses[1] == Approx(losses[0]).epsilon(2e-2));
  }
}

TEST_CASE("Transformers: wrong options") {
  CHECK_THROWS_WITH(Gpt({.vocab = 5, .layers = 1, .heads = 3, .dim = 16}),
                    Contains("[gpt] heads do not fit: given dim 16, 3 heads"));
  CHECK_THROWS_WITH(Llama({.vocab = 5, .layers = 1, .heads = 4, .kv_heads = 3, .dim = 16}),
                    Contains("[llama] heads do not fit"));
  CHECK_THROWS_WITH(Gpt({.vocab = 5, .layers = 0, .heads = 1, .dim = 16}),
                    Contains("[gpt] bad number of layers"));
}

}  // namespace
}  // namespace tenon
