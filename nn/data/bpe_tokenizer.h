// GPT-2's tokenizer: byte pair encoding within the pieces of gpt2_split, by the ranks of a file.
// A piece that is itself a token is that token, as tiktoken has it.
#pragma once

#include "tenon/nn/data/bpe_ranks.h"
#include "tenon/nn/data/tokenizer.h"

namespace tenon {

class BpeTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kEndOfText = "<|endoftext|>";

  explicit BpeTokenizer(const std::string& path) : ranks_(path) {}

  std::string name() const override { return "bpe"; }
  // The ranks and the end of text.
  int64_t vocab_size() const override { return int64_t{ranks_.size()} + 1; }
  // "<|endoftext|>" in `text` is text like any other: a corpus cannot forge the special token.
  std::vector<int32_t> encode(std::string_view text) const override;
  // Takes each "<|endoftext|>" in `text` for the special token.
  std::vector<int32_t> encode_with_special(std::string_view text) const;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string to_json() const override;

  int32_t end_of_text() const { return ranks_.size(); }
  const std::string& path() const { return ranks_.path(); }
  uint32_t checksum() const { return ranks_.checksum(); }

 private:
  BpeRanks ranks_;
};

}  // namespace tenon
