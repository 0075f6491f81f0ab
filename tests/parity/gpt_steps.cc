// Trains bench_train's GPT from a given state on given batches, for gpt_parity.py.
//   gpt_steps STATE RESULT   safetensors files
// STATE: model.NAME, NAME.mean, NAME.variance and NAME.step where there is optimizer state, and
// tokens, targets (S, B, T) i64 and the learning rates lr (S) f64 of S steps. RESULT: model.NAME
// and losses (S).
#include <iostream>

#include "tenon/tenon.h"

namespace {

using namespace tenon;

int run(const std::string& from, const std::string& to) {
  nn::Gpt model({.vocab = 65, .layers = 6, .heads = 6, .dim = 384, .context = 256, .bias = false});
  std::vector<NamedTensor> weights, states;
  Tensor tokens, targets;
  std::vector<double> rates;
  const std::string prefix = "model.";
  for (const auto& [name, tensor] : load_safetensors(from).tensors) {
    if (name == "tokens") {
      tokens = tensor;
    } else if (name == "targets") {
      targets = tensor;
    } else if (name == "lr") {
      rates = tensor.to_vector();
    } else if (name.starts_with(prefix)) {
      weights.push_back({name.substr(prefix.size()), tensor});
    } else {
      states.push_back({name, tensor});
    }
  }
  load_state_dict(model, weights);
  std::vector<NamedTensor> matrices, vectors;
  for (const NamedTensor& parameter : model.parameters()) {
    (parameter.tensor.ndim() > 1 ? matrices : vectors).push_back(parameter);
  }
  AdamW optimizer({{.parameters = matrices}, {.parameters = vectors, .weight_decay = 0.0}},
                  {.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1});
  if (!states.empty()) optimizer.load_state_dict(states);
  std::vector<double> losses;
  for (int64_t i = 0; i < tokens.dim(0); ++i) {
    const auto batch = [i](const Tensor& all) {
      return reshape(narrow(all, 0, i, 1), {all.dim(1), all.dim(2)});
    };
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(call_module(model, batch(tokens)), batch(targets));
    loss.backward();
    clip_grad_norm(model.parameters(), 1.0);
    optimizer.set_lr(rates[static_cast<size_t>(i)]);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  std::vector<NamedTensor> result = state_dict(model);
  for (NamedTensor& tensor : result) tensor.name = prefix + tensor.name;
  result.push_back({"losses", from_vector(losses, {tokens.dim(0)}, {DType::f64})});
  save_safetensors(to, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: gpt_steps STATE RESULT\n";
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
