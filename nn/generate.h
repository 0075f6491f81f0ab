// Text from a language model, token by token.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/nn/transformer.h"

namespace tenon::nn {

struct SamplingOptions {
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // only the so many most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens with this much of the probability together
};

// Draws a token for logits (V): `uniform` in [0, 1) decides.
int32_t sample_token(const Tensor& logits, const SamplingOptions& options, double uniform);

// `count` tokens after `prompt`, which is not empty: `random` gives numbers in [0, 1). What is
// longer than the model's context is cut at the front.
template <class Model>
std::vector<int32_t> generate(Model& model, std::vector<int32_t> prompt, int64_t count,
                              const SamplingOptions& options,
                              const std::function<double()>& random) {
  TENON_CHECK(!prompt.empty(), "generate", "empty prompt, wanted at least one token");
  const NoGrad no_grad;
  const bool training = model.training();
  model.eval();
  const int64_t context = model.options().context;
  std::vector<int32_t> text = std::move(prompt);
  const size_t given = text.size();
  KeyValueCache cache;
  for (int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<int64_t>(text.size());
    int64_t fresh = 1;
    if (cache.layers.empty() || cache.length == context) {
      // A full cache begins again with as much of the text as leaves room for more.
      fresh = std::min(size, i == 0 ? context : std::max<int64_t>(context / 2, 1));
      cache = model.new_cache(1, context);
    }
    const std::vector<int64_t> ids(text.end() - fresh, text.end());
    const Tensor logits = call_module(model, from_data(ids, {1, fresh}), &cache);
    text.push_back(sample_token(reshape(narrow(logits, 1, fresh - 1, 1), {-1}), options, random()));
  }
  if (training) model.train();
  return {text.begin() + static_cast<std::ptrdiff_t>(given), text.end()};
}

}  // namespace tenon::nn
