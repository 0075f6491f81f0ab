// Decoder-only transformers: Gpt (GPT-2's shape: learned positions, LayerNorm, GELU) and Llama
// (rotary positions, RMSNorm, SwiGLU, grouped-query attention). Tokens (B, T) give logits
// (B, T, vocab). They know nothing of ranks, wrappers or optimizers.
#pragma once

#include <vector>

#include "tenon/autograd/ops/attention.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/nn/dropout.h"
#include "tenon/nn/embedding.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/norm.h"

namespace tenon::nn {

// Keys and values of the tokens so far, a layer each, for generating token by token. Made by a
// model's new_cache().
struct KeyValueCache {
  struct Layer {
    Tensor keys, values;  // (B, G, capacity, D)
  };
  std::vector<Layer> layers;
  int64_t length = 0;  // tokens in it
  int64_t capacity() const { return layers.empty() ? 0 : layers[0].keys.dim(2); }
};

struct AttentionShape {
  int64_t dim;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim() const { return dim / heads; }
};

// Causal attention of packed queries, keys and values (B, T, (H + 2 G) D): (B, T, H D). With a
// cache the new tokens are appended to `layer` of it and see all of it.
Tensor cached_attention(const Tensor& qkv, const AttentionShape& shape,
                        KeyValueCache* cache = nullptr, size_t layer = 0);

struct GptOptions {
  int64_t vocab = 50257;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t dim = 768;
  int64_t context = 1024;
  bool bias = true;
  double dropout = 0;      // of embeddings and of both residual branches
  bool gelu_tanh = false;  // GPT-2's own approximation
  bool tied_head = true;   // the head's weight is the embedding's
  bool recompute = false;  // blocks run again in backward instead of keeping their activations
};

// residual + proj(attention(x)).
class GptAttention : public Module {
 public:
  explicit GptAttention(const GptOptions& options);
  Tensor forward(const Tensor& x, const Tensor& residual, KeyValueCache* cache, size_t layer);

 private:
  const AttentionShape shape_;
  const double dropout_;

 public:
  Child<Linear> c_attn;
  Child<Linear> c_proj;
};

// residual + proj(fc(x)); GELU is part of proj.
class GptMlp : public Module {
 public:
  explicit GptMlp(const GptOptions& options);
  Tensor forward(const Tensor& x, const Tensor& residual);

 private:
  const double dropout_;

 public:
  Child<Linear> c_fc;
  Child<Linear> c_proj;
};

class GptBlock : public Module {
 public:
  explicit GptBlock(const GptOptions& options)
      : ln_1(this, "ln_1", options.dim, LayerNormOptions{.bias = options.bias}),
        attn(this, "attn", options),
        ln_2(this, "ln_2", options.dim, LayerNormOptions{.bias = options.bias}),
        mlp(this, "mlp", options) {}
  Tensor forward(const Tensor& x, KeyValueCache* cache = nullptr, size_t layer = 0) {
    const Tensor middle = attn(ln_1(x), x, cache, layer);
    return mlp(ln_2(middle), middle);
  }

  Child<LayerNorm> ln_1;
  Child<GptAttention> attn;
  Child<LayerNorm> ln_2;
  Child<GptMlp> mlp;
};

class Gpt : public Module {
 public:
  using Block = GptBlock;
  explicit Gpt(const GptOptions& options);
  Tensor forward(const Tensor& tokens, KeyValueCache* cache = nullptr);
  KeyValueCache new_cache(int64_t batch, int64_t capacity) const;
  const GptOptions& options() const { return options_; }

 private:
  const GptOptions options_;

 public:
  Child<Embedding> wte;
  Child<Embedding> wpe;
  ChildList<GptBlock> h;
  Child<LayerNorm> ln_f;
  Child<Linear> lm_head;
};

struct LlamaOptions {
  int64_t vocab = 32000;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t dim = 768;
  int64_t hidden = 0;  // of the MLP; 0: 8/3 of dim, rounded up to a multiple of 32
  int64_t context = 1024;
  double rope_base = 10000;
  double norm_eps = 1e-5;
  bool tied_head = false;
  bool recompute = false;
};

// residual + proj(attention(x)), queries and keys turned by their positions.
class LlamaAttention : public Module {
 public:
  explicit LlamaAttention(const LlamaOptions& options);
  Tensor forward(const Tensor& x, const Tensor& residual, const RotaryTable& table,
                 KeyValueCache* cache, size_t layer);

 private:
  const AttentionShape shape_;

 public:
  Child<Linear> qkv_proj;
  Child<Linear> o_proj;
};

// residual + down(gate_up(x)); silu(gate) up is part of down.
class LlamaMlp : public Module {
 public:
  explicit LlamaMlp(const LlamaOptions& options);
  Tensor forward(const Tensor& x, const Tensor& residual) {
    return down_proj(gate_up_proj(x), residual);
  }

  Child<Linear> gate_up_proj;
  Child<Linear> down_proj;
};

class LlamaBlock : public Module {
 public:
  explicit LlamaBlock(const LlamaOptions& options)
      : input_layernorm(this, "input_layernorm", options.dim, RmsNormOptions{options.norm_eps}),
        self_attn(this, "self_attn", options),
        post_attention_layernorm(this, "post_attention_layernorm", options.dim,
                                 RmsNormOptions{options.norm_eps}),
        mlp(this, "mlp", options) {}
  Tensor forward(const Tensor& x, const RotaryTable& table, KeyValueCache* cache = nullptr,
                 size_t layer = 0) {
    const Tensor middle = self_attn(input_layernorm(x), x, table, cache, layer);
    return mlp(post_attention_layernorm(middle), middle);
  }

  Child<RmsNorm> input_layernorm;
  Child<LlamaAttention> self_attn;
  Child<RmsNorm> post_attention_layernorm;
  Child<LlamaMlp> mlp;
};

class Llama : public Module {
 public:
  using Block = LlamaBlock;
  explicit Llama(const LlamaOptions& options);
  Tensor forward(const Tensor& tokens, KeyValueCache* cache = nullptr);
  KeyValueCache new_cache(int64_t batch, int64_t capacity) const;
  const LlamaOptions& options() const { return options_; }

 private:
  // The angles in the dtype and on the device that blocks compute in.
  const RotaryTable& table(const Tensor& x);

  const LlamaOptions options_;
  RotaryTable table_;

 public:
  Child<Embedding> embed_tokens;
  ChildList<LlamaBlock> layers;
  Child<RmsNorm> norm;
  Child<Linear> lm_head;
};

}  // namespace tenon::nn
