#include "tenon/nn/data/tokenizer.h"

#include <array>
#include <cstdio>

#include "tenon/core/check.h"
#include "tenon/nn/data/bpe_tokenizer.h"
#include "tenon/nn/data/unicode.h"

namespace tenon {
namespace {

template <class... Parts>
[[noreturn]] void bad(const Parts&... parts) {
  throw Error(str("[char_tokenizer] ", parts...), ErrorKind::bad_data);
}

void check_token(const char* op, int32_t token, int64_t vocab_size) {
  TENON_CHECK(token >= 0 && token < vocab_size, op, "no such token: given ", token,
              ", wanted 0 <= token < ", vocab_size);
}

// "é" (U+00E9)
std::string shown(char32_t code) {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "U+%04X", static_cast<unsigned>(code));
  std::string character;
  unicode::append_utf8(character, code);
  return code < 0x20 || (code >= 0x7F && code < 0xA0)
             ? number.data()
             : str("\"", character, "\" (", number.data(), ")");
}

// Calls body(code, offset) for every character.
template <class Body>
void for_each_character(std::string_view text, const Body& body) {
  for (size_t at = 0; at < text.size();) {
    const unicode::Character next = unicode::character_at(text, at);
    if (next.code == unicode::kInvalid) {
      bad("not UTF-8: given byte ", int{static_cast<unsigned char>(text[at])}, " at offset ", at,
          "; the tokenizer \"byte\" takes any bytes");
    }
    body(next.code, at);
    at += next.bytes;
  }
}

}  // namespace

std::vector<int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    check_token("byte_tokenizer", token, vocab_size());
    text += static_cast<char>(token);
  }
  return text;
}

CharTokenizer::CharTokenizer(std::string_view corpus) {
  if (corpus.empty()) bad("the corpus is empty: wanted at least one character");
  constexpr int32_t kSeen = 0;
  for_each_character(corpus, [&](char32_t code, size_t) {
    if (code >= token_of_.size()) token_of_.resize(code + 1, -1);
    token_of_[code] = kSeen;
  });
  for (char32_t code = 0; code < token_of_.size(); ++code) {
    if (token_of_[code] != kSeen) continue;
    token_of_[code] = static_cast<int32_t>(characters_.size());
    characters_.push_back(code);
  }
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for_each_character(text, [&](char32_t code, size_t at) {
    const int32_t token = code < token_of_.size() ? token_of_[code] : -1;
    if (token < 0) {
      bad("unknown character: given ", shown(code), " at byte offset ", at, ", wanted one of the ",
          characters_.size(), " of the corpus");
    }
    tokens.push_back(token);
  });
  return tokens;
}

std::string CharTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    check_token("char_tokenizer", token, vocab_size());
    unicode::append_utf8(text, characters_[static_cast<size_t>(token)]);
  }
  return text;
}

std::string CharTokenizer::characters() const {
  std::string all;
  for (const char32_t code : characters_) unicode::append_utf8(all, code);
  return all;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, std::string_view corpus) {
  constexpr std::string_view kBpe = "bpe:";
  if (spec == "byte") return std::make_unique<ByteTokenizer>();
  if (spec == "char") return std::make_unique<CharTokenizer>(corpus);
  if (spec.starts_with(kBpe) && spec.size() > kBpe.size()) {
    return std::make_unique<BpeTokenizer>(spec.substr(kBpe.size()));
  }
  throw Error(
      str("[tokenizer] unknown tokenizer: given \"", spec, "\", wanted byte, char or bpe:FILE"),
      ErrorKind::usage);
}

}  // namespace tenon
