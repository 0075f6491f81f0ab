// Gpt and Llama against transformers' own, by the files of make_transformer_references.py.
#include "tenon/nn/hugging_face.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/loss.h"
#include "tenon/core/factory.h"
#include "tenon/nn/safetensors.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/scratch.h"

namespace tenon {
namespace {

using Catch::Contains;
using nn::from_hugging_face;
using nn::Gpt;
using nn::GptOptions;
using nn::Llama;
using nn::LlamaOptions;
using nn::to_hugging_face;
using testing::bad_data_error_of;

using State = std::vector<NamedTensor>;

const GptOptions kGpt{
    .vocab = 31, .layers = 2, .heads = 2, .dim = 16, .context = 16, .gelu_tanh = true};
const LlamaOptions kLlama{
    .vocab = 31, .layers = 2, .heads = 4, .kv_heads = 2, .dim = 16, .hidden = 24, .context = 16};

// A reference file, taken apart.
struct Reference {
  explicit Reference(const std::string& name) {
    for (const auto& [full, tensor] :
         load_safetensors("tests/references/" + name + ".safetensors").tensors) {
      if (full.starts_with("reference.")) {
        values.emplace(full.substr(10), tensor);
      } else if (full.starts_with("grad.")) {
        gradients.push_back({full.substr(5), tensor});
      } else {
        state.push_back({full, tensor});
      }
    }
  }
  Tensor here(const std::string& name) const {
    return copied_to(values.at(name), default_device());
  }

  State state;  // as save_pretrained writes it
  State gradients;
  std::map<std::string, Tensor> values;
};

std::map<std::string, Tensor> by_name(const State& state) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensor] : state) CHECK(result.emplace(name, tensor).second);
  return result;
}

double relative_error(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.shape() == wanted.shape());
  const std::vector<double> a = got.to_vector(), b = wanted.to_vector();
  double error = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    error = std::max(error, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

// The gradients of a model under Hugging Face's names: put into another one as its weights.
template <class Model>
State gradients_of(const Model& model) {
  Model holder(model.options());
  const State from = model.parameters(), into = holder.parameters();
  const NoGrad no_grad;
  for (size_t i = 0; i < from.size(); ++i) copy_(into[i].tensor, from[i].tensor.grad());
  return to_hugging_face(holder);
}

template <class Model>
void check_reference(const auto& options, const Reference& reference) {
  Model model(options);
  from_hugging_face(model, reference.state);
  const Tensor logits = model.forward(reference.here("tokens"));
  CHECK(relative_error(logits, reference.values.at("logits")) < 1e-5);
  const Tensor loss = cross_entropy(logits, reference.here("targets"));
  CHECK(relative_error(loss, reference.values.at("loss")) < 1e-5);
  loss.backward();
  const auto gradients = by_name(gradients_of(model));
  CHECK(gradients.size() == reference.gradients.size());
  for (const auto& [name, wanted] : reference.gradients) {
    CAPTURE(name);
    REQUIRE(gradients.contains(name));
    CHECK(relative_error(gradients.at(name), wanted) < 1e-5);
  }
}

TEST_CASE("Logits, loss and gradients are those of transformers") {
  check_reference<Gpt>(kGpt, Reference("gpt2"));
  check_reference<Llama>(kLlama, Reference("llama"));
}

template <class Model>
void check_round_trip(const auto& options, const Reference& reference) {
  Model model(options);
  from_hugging_face(model, reference.state);
  const State written = to_hugging_face(model);
  CHECK(written.size() == reference.state.size());
  const auto given = by_name(reference.state);
  for (const auto& [name, tensor] : written) {
    CAPTURE(name);
    REQUIRE(given.contains(name));
    CHECK(tensor.dtype() == given.at(name).dtype());
    CHECK(tensor.shape() == given.at(name).shape());
    CHECK(tensor.is_contiguous());
    CHECK(testing::same_bits(tensor, given.at(name)));
  }
}

TEST_CASE("What is loaded from transformers is saved with its names and bits") {
  check_round_trip<Gpt>(kGpt, Reference("gpt2"));
  check_round_trip<Llama>(kLlama, Reference("llama"));
}

// The values of a model's state.
template <class Model>
std::vector<std::vector<double>> values_of(const Model& model) {
  std::vector<std::vector<double>> result;
  for (const auto& [name, tensor] : to_hugging_face(model)) result.push_back(tensor.to_vector());
  return result;
}

template <class Model>
std::vector<std::vector<double>> values_after(const auto& options, const State& state) {
  Model model(options);
  from_hugging_face(model, state);
  return values_of(model);
}

TEST_CASE("The outermost prefix may be missing") {
  const auto without = [](State state, const std::string& prefix) {
    size_t cut = 0;
    for (auto& [name, tensor] : state) {
      if (!name.starts_with(prefix)) continue;
      name = name.substr(prefix.size());
      ++cut;
    }
    CHECK(cut > 10);
    return state;
  };
  const Reference gpt("gpt2"), llama("llama");
  CHECK(values_after<Gpt>(kGpt, without(gpt.state, "transformer.")) ==
        values_after<Gpt>(kGpt, gpt.state));
  CHECK(values_after<Llama>(kLlama, without(llama.state, "model.")) ==
        values_after<Llama>(kLlama, llama.state));
}

NamedTensor& find(State& state, const std::string& name) {
  return *std::find_if(state.begin(), state.end(),
                       [&](const NamedTensor& entry) { return entry.name == name; });
}

// The error of loading `state`, which must leave the model as it was.
template <class Model>
std::string error_for(const auto& options, const State& state) {
  Model model(options);
  const auto before = values_of(model);
  const std::string text = bad_data_error_of([&] { from_hugging_face(model, state); });
  CHECK(values_of(model) == before);
  return text;
}

TEST_CASE("Weights that do not fit are one error that names them all") {
  State gpt = Reference("gpt2").state;
  find(gpt, "transformer.h.1.mlp.c_fc.weight").name = "transformer.h.1.mlp.gate.weight";
  find(gpt, "transformer.h.0.ln_1.bias").name = "transformer.h.2.ln_1.bias";
  find(gpt, "transformer.wpe.weight").tensor = ones({16, 15});
  find(gpt, "transformer.ln_f.bias").tensor = ones({16}, {.dtype = DType::i64});
  gpt.push_back({"wte.weight", ones({31, 16})});
  CHECK_THAT(
      error_for<Gpt>(kGpt, gpt),
      Contains("[hugging_face] the weights do not fit the model:") &&
          Contains("missing: h.1.mlp.c_fc.weight, wanted (16, 64)") &&
          Contains("missing: h.0.ln_1.bias, wanted (16)") &&
          Contains("unexpected: h.1.mlp.gate.weight, f32 (16, 64)") &&
          Contains("unexpected: h.2.ln_1.bias, f32 (16)") &&
          Contains(
              "mismatched: wpe.weight, given f32 (16, 15), wanted floating numbers (16, 16)") &&
          Contains("mismatched: ln_f.bias, given i64 (16), wanted floating numbers (16)") &&
          Contains("given twice: wte.weight"));

  State llama = Reference("llama").state;
  find(llama, "lm_head.weight").name = "head.weight";
  find(llama, "model.layers.1.self_attn.k_proj.weight").tensor = ones({16, 16});
  CHECK_THAT(
      error_for<Llama>(kLlama, llama),
      Contains("missing: lm_head.weight, wanted (31, 16)") &&
          Contains("mismatched: layers.1.self_attn.k_proj.weight, given f32 (16, 16), wanted "
                   "floating numbers (8, 16)") &&
          Contains("unexpected: head.weight"));
  CHECK_THAT(error_for<Llama>(kLlama, {}), Contains("missing: embed_tokens.weight"));
}

TEST_CASE("A tied head may be in the file as well, if it is the embedding") {
  const Reference reference("gpt2");
  State state = reference.state;
  state.push_back(
      {"lm_head.weight", copied_to(find(state, "transformer.wte.weight").tensor, kCpu)});
  CHECK(values_after<Gpt>(kGpt, state) == values_after<Gpt>(kGpt, reference.state));
  state.back().tensor = ones({31, 16});
  CHECK_THAT(error_for<Gpt>(kGpt, state),
             Contains("mismatched: lm_head.weight, wanted the same as wte.weight"));
  GptOptions options = kGpt;
  options.tied_head = false;
  CHECK(values_after<Gpt>(options, state).size() == state.size());
  CHECK_THAT(error_for<Gpt>(options, reference.state), Contains("missing: lm_head.weight"));
}

TEST_CASE("Masks and angles in old files are no weights") {
  const Reference gpt("gpt2"), llama("llama");
  State state = gpt.state;
  state.push_back({"transformer.h.0.attn.bias", ones({1, 1, 16, 16}, {.dtype = DType::u8})});
  state.push_back({"h.1.attn.masked_bias", scalar(-1e4)});
  CHECK(values_after<Gpt>(kGpt, state) == values_after<Gpt>(kGpt, gpt.state));
  state = llama.state;
  state.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", ones({2})});
  CHECK(values_after<Llama>(kLlama, state) == values_after<Llama>(kLlama, llama.state));
}

TEST_CASE("Weights in bf16 are converted, and copies in it follow") {
  const Reference reference("llama");
  State state = reference.state;
  for (auto& [name, tensor] : state) {
    tensor =
        from_vector(tensor.to_vector(), tensor.shape(), {.dtype = DType::bf16, .device = kCpu});
  }
  Llama model(kLlama);
  model.set_compute_dtype(DType::bf16);
  const NoGrad no_grad;
  model.forward(reference.here("tokens"));  // makes the copies
  from_hugging_face(model, state);
  const State loaded = to_hugging_face(model);
  const auto given = by_name(state);
  for (const auto& [name, tensor] : loaded) {
    CHECK(tensor.dtype() == DType::f32);
    CHECK(tensor.to_vector() == given.at(name).to_vector());
  }
  const Tensor logits = model.forward(reference.here("tokens"));
  CHECK(relative_error(logits, reference.values.at("logits")) < 0.05);
}

}  // namespace
}  // namespace tenon
