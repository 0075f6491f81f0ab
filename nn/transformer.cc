#include "tenon/nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tenon/autograd/checkpoint.h"
#include "tenon/autograd/ops/index.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/core/factory.h"
#include "tenon/nn/init.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {
namespace {

// Puts x (B, G, T, D) behind the first `length` tokens of `kept`; the view of all of them.
Tensor append(const Tensor& kept, const Tensor& x, int64_t length) {
  copy_(narrow(kept, 2, length, x.dim(2)), x);
  return narrow(kept, 2, 0, length + x.dim(2));
}

AttentionShape checked_shape(const char* model, int64_t dim, int64_t heads, int64_t kv_heads) {
  check_positive(model, "dim", dim);
  check_positive(model, "number of heads", heads);
  check_positive(model, "number of kv_heads", kv_heads);
  TENON_CHECK(dim % heads == 0 && heads % kv_heads == 0, model, "heads do not fit: given dim ", dim,
              ", ", heads, " heads and ", kv_heads,
              " kv_heads, wanted dim a multiple of heads, and heads of kv_heads");
  return {dim, heads, kv_heads};
}

void check_tokens(const char* model, const Tensor& tokens, const KeyValueCache* cache,
                  int64_t context) {
  TENON_CHECK(tokens.ndim() == 2, model, "wrong tokens: given shape ", tokens.shape(),
              ", wanted (B, T)");
  const int64_t start = cache == nullptr ? 0 : cache->length;
  const int64_t most = cache == nullptr ? context : std::min(context, cache->capacity());
  TENON_CHECK(start + tokens.dim(1) <= most, model, "too many tokens: given ", tokens.dim(1),
              " after ", start, ", wanted at most ", most, " in all");
}

KeyValueCache make_cache(const AttentionShape& shape, int64_t layers, int64_t batch,
                         int64_t capacity, TensorOptions options) {
  KeyValueCache cache;
  const Shape size{batch, shape.kv_heads, capacity, shape.head_dim()};
  for (int64_t i = 0; i < layers; ++i) {
    cache.layers.push_back({zeros(size, options), zeros(size, options)});
  }
  return cache;
}

// GPT-2's initial values: normal with deviation 0.02, and less for what adds to the residual
// stream, so that its variance does not grow with depth.
void initialize(Linear& layer, double deviation) {
  init::normal_(layer.weight, 0, deviation);
  if (layer.bias.defined()) init::constant_(layer.bias, 0);
}
double residual_deviation(int64_t layers) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(layers));
}

// residual + layer(x), with dropout between the two.
Tensor add_branch(Child<Linear>& layer, const Tensor& x, const Tensor& residual, double p) {
  if (p == 0) return layer(x, residual);
  return residual + dropout(layer(x), p, true);
}

// block(x), its activations kept or computed again in backward.
Tensor run_block(bool recompute, const std::function<Tensor(const Tensor&)>& block,
                 const Tensor& x) {
  return recompute ? checkpoint(block, x) : block(x);
}

}  // namespace

Tensor cached_attention(const Tensor& qkv, const AttentionShape& shape, KeyValueCache* cache,
                        size_t layer) {
  if (cache == nullptr) return self_attention(qkv, shape.heads, shape.kv_heads);
  TENON_CHECK(!qkv.requires_grad(), "attention",
              "a cache is for generating: wanted no recording (NoGrad)");
  const int64_t batch = qkv.dim(0), length = qkv.dim(1), size = shape.head_dim();
  const KeyValueCache::Layer& kept = cache->layers.at(layer);
  const Tensor keys =
      append(kept.keys, heads_of(qkv, shape.heads, shape.kv_heads, size), cache->length);
  const Tensor values =
      append(kept.values, heads_of(qkv, shape.heads + shape.kv_heads, shape.kv_heads, size),
             cache->length);
  const Tensor out = attention(heads_of(qkv, 0, shape.heads, size), keys, values);
  return reshape(transpose(out, 1, 2), {batch, length, shape.heads * size});
}

GptAttention::GptAttention(const GptOptions& options)
    : shape_(checked_shape("gpt", options.dim, options.heads, options.heads)),
      dropout_(options.dropout),
      c_attn(this, "c_attn", options.dim, 3 * options.dim, LinearOptions{.bias = options.bias}),
      c_proj(this, "c_proj", options.dim, options.dim, LinearOptions{.bias = options.bias}) {
  initialize(*c_attn, 0.02);
  initialize(*c_proj, residual_deviation(options.layers));
}

Tensor GptAttention::forward(const Tensor& x, const Tensor& residual, KeyValueCache* cache,
                             size_t layer) {
  const Tensor attended = cached_attention(c_attn(x), shape_, cache, layer);
  return add_branch(c_proj, attended, residual, training() ? dropout_ : 0);
}

GptMlp::GptMlp(const GptOptions& options)
    : dropout_(options.dropout),
      c_fc(this, "c_fc", options.dim, 4 * options.dim, LinearOptions{.bias = options.bias}),
      c_proj(this, "c_proj", 4 * options.dim, options.dim,
             LinearOptions{.bias = options.bias,
                           .input_activation = options.gelu_tanh ? InputActivation::gelu_tanh
                                                                 : InputActivation::gelu}) {
  initialize(*c_fc, 0.02);
  initialize(*c_proj, residual_deviation(options.layers));
}

Tensor GptMlp::forward(const Tensor& x, const Tensor& residual) {
  return add_branch(c_proj, c_fc(x), residual, training() ? dropout_ : 0);
}

Gpt::Gpt(const GptOptions& options)
    : options_(options),
      wte(this, "wte", options.vocab, options.dim),
      wpe(this, "wpe", options.context, options.dim),
      h(this, "h", options.layers, options),
      ln_f(this, "ln_f", options.dim, LayerNormOptions{.bias = options.bias}),
      lm_head(this, "lm_head", options.dim, options.vocab, LinearOptions{.bias = false}) {
  check_positive("gpt", "number of layers", options.layers);
  init::normal_(wte->weight, 0, 0.02);
  init::normal_(wpe->weight, 0, 0.02);
  initialize(*lm_head, 0.02);
  if (options.tied_head) lm_head->weight.tie(wte->weight);
}

Tensor Gpt::forward(const Tensor& tokens, KeyValueCache* cache) {
  check_tokens("gpt", tokens, cache, options_.context);
  const int64_t start = cache == nullptr ? 0 : cache->length;
  const Tensor all = arange(start + tokens.dim(1), {DType::i64, tokens.device()});
  const Tensor positions = narrow(all, 0, start, tokens.dim(1));
  Tensor x = wte(tokens) + wpe(positions);
  if (options_.dropout > 0) x = dropout(x, options_.dropout, training());
  for (size_t i = 0; i < h.size(); ++i) {
    x = run_block(
        options_.recompute && cache == nullptr,
        [this, cache, i](const Tensor& input) { return h[i](input, cache, i); }, x);
  }
  if (cache != nullptr) cache->length += tokens.dim(1);
  return lm_head(ln_f(x));
}

KeyValueCache Gpt::new_cache(int64_t batch, int64_t capacity) const {
  const Tensor& weight = wte->weight;
  return make_cache({options_.dim, options_.heads, options_.heads}, options_.layers, batch,
                    capacity, {compute_dtype().value_or(weight.dtype()), weight.device()});
}

namespace {

LlamaOptions completed(LlamaOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.hidden == 0) options.hidden = (8 * options.dim / 3 + 31) / 32 * 32;
  return options;
}

constexpr LinearOptions kNoBias{.bias = false};

}  // namespace

LlamaAttention::LlamaAttention(const LlamaOptions& options)
    : shape_(checked_shape("llama", options.dim, options.heads, options.kv_heads)),
      qkv_proj(this, "qkv_proj", options.dim,
               (options.heads + 2 * options.kv_heads) * shape_.head_dim(), kNoBias),
      o_proj(this, "o_proj", options.dim, options.dim, kNoBias) {
  initialize(*qkv_proj, 0.02);
  initialize(*o_proj, residual_deviation(options.layers));
}

Tensor LlamaAttention::forward(const Tensor& x, const Tensor& residual, const RotaryTable& table,
                               KeyValueCache* cache, size_t layer) {
  const int64_t start = cache == nullptr ? 0 : cache->length;
  const Tensor qkv = rotary(qkv_proj(x), table, shape_.heads + shape_.kv_heads, start);
  return o_proj(cached_attention(qkv, shape_, cache, layer), residual);
}

LlamaMlp::LlamaMlp(const LlamaOptions& options)
    : gate_up_proj(this, "gate_up_proj", options.dim, 2 * options.hidden, kNoBias),
      down_proj(this, "down_proj", options.hidden, options.dim,
                LinearOptions{.bias = false, .input_activation = InputActivation::swiglu}) {
  initialize(*gate_up_proj, 0.02);
  initialize(*down_proj, residual_deviation(options.layers));
}

Llama::Llama(const LlamaOptions& options)
    : options_(completed(options)),
      embed_tokens(this, "embed_tokens", options_.vocab, options_.dim),
      layers(this, "layers", options_.layers, options_),
      norm(this, "norm", options_.dim, RmsNormOptions{options_.norm_eps}),
      lm_head(this, "lm_head", options_.dim, options_.vocab, kNoBias) {
  check_positive("llama", "number of layers", options_.layers);
  init::normal_(embed_tokens->weight, 0, 0.02);
  initialize(*lm_head, 0.02);
  if (options_.tied_head) lm_head->weight.tie(embed_tokens->weight);
}

const RotaryTable& Llama::table(const Tensor& x) {
  const DType dtype = tenon::compute_dtype(x.dtype());
  const bool fits = table_.cosines.defined() && table_.cosines.dtype() == dtype &&
                    table_.cosines.device() == x.device();
  if (!fits) {
    table_ = rotary_table(options_.context, options_.dim / options_.heads, options_.rope_base,
                          dtype, x.device());
  }
  return table_;
}

Tensor Llama::forward(const Tensor& tokens, KeyValueCache* cache) {
  check_tokens("llama", tokens, cache, options_.context);
  Tensor x = embed_tokens(tokens);
  const RotaryTable& angles = table(x);
  for (size_t i = 0; i < layers.size(); ++i) {
    x = run_block(
        options_.recompute && cache == nullptr,
        [this, &angles, cache, i](const Tensor& input) {
          return layers[i](input, angles, cache, i);
        },
        x);
  }
  if (cache != nullptr) cache->length += tokens.dim(1);
  return lm_head(norm(x));
}

KeyValueCache Llama::new_cache(int64_t batch, int64_t capacity) const {
  const Tensor& weight = embed_tokens->weight;
  return make_cache({options_.dim, options_.heads, options_.kv_heads}, options_.layers, batch,
                    capacity, {compute_dtype().value_or(weight.dtype()), weight.device()});
}

}  // namespace tenon::nn
