// Text to token numbers and back. A tokenizer gives the same numbers wherever it is made from the
// same description (to_json), which is what a checkpoint keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Tokenizer {
 public:
  Tokenizer() = default;
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  virtual std::string name() const = 0;
  // Tokens are 0 … vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The bytes that encode() took, whatever they were. A number that is no token is an Error.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  virtual std::string to_json() const = 0;
};

// "byte", "char" (of the characters of `corpus`) or "bpe:FILE" (ranks as tiktoken keeps them).
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, std::string_view corpus);
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& json);

// A token is a byte.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string to_json() const override;
};

// A token is one of the characters that a corpus is written in, numbered in the order of Unicode.
class CharTokenizer final : public Tokenizer {
 public:
  // The corpus must be valid UTF-8 and not empty.
  explicit CharTokenizer(std::string_view corpus);

  std::string name() const override { return "char"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }
  // A character that the corpus lacked is a bad_data Error with its place.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string to_json() const override;
  // All of them, in the order of their numbers.
  std::string characters() const;

 private:
  std::vector<char32_t> characters_;
  std::vector<int32_t> token_of_;  // by code, up to the largest; -1 = none
};

}  // namespace tenon
