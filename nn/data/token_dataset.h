// Windows of a token sequence as a language model takes them: T tokens, and for each of them the
// one that follows as its target.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenon/core/tensor.h"
#include "tenon/nn/data/tokens.h"

namespace tenon {

struct TokenBatch {
  Tensor tokens;   // (B, T), i64
  Tensor targets;  // (B, T), i64
};

class TokenDataset {
 public:
  explicit TokenDataset(Tokens tokens) : tokens_(std::move(tokens)) {}

  int64_t size() const { return tokens_.size(); }
  const std::string& name() const { return tokens_.name(); }
  const Tokens& tokens() const { return tokens_; }
  // Each token but the first is a target.
  int64_t targets() const { return size() > 0 ? size() - 1 : 0; }

  // Row i: the `length` tokens from offsets[i] on, which must have one more behind them.
  TokenBatch batch(std::span<const int64_t> offsets, int64_t length) const;

 private:
  Tokens tokens_;
};

struct TokenSplit {
  TokenDataset train;
  TokenDataset validation;
};

// The first int(fraction * size) tokens to train on, the others to validate on.
TokenSplit split_tokens(const Tokens& tokens, double fraction = 0.9);

}  // namespace tenon
