// Unicode as the tokenizers need it: the characters of UTF-8 text, and the classes of characters
// that GPT-2's splitting rule tells apart. Any bytes are accepted: one that is part of no valid
// UTF-8 sequence is a character of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::unicode {

inline constexpr char32_t kInvalid = 0xFFFFFFFF;  // what a byte outside valid UTF-8 reads as
inline constexpr char32_t kMaxCode = 0x10FFFF;

struct Character {
  char32_t code = kInvalid;
  size_t bytes = 1;
  bool operator==(const Character&) const = default;
};

// The character that begins at `at`, which must lie inside `text`.
Character character_at(std::string_view text, size_t at);

// Appends the UTF-8 of a valid code.
void append_utf8(std::string& text, char32_t code);

// \p{L}, \p{N}, \s of regular expressions, and the rest.
enum class Class : uint8_t { letter, number, space, other };
Class class_of(char32_t code);

// The sorted tables behind class_of; both ends belong to a range.
struct CodeRange {
  uint32_t first;
  uint32_t last;
};
extern const CodeRange kLetters[];
extern const int kLettersCount;
extern const CodeRange kNumbers[];
extern const int kNumbersCount;

}  // namespace tenon::unicode
