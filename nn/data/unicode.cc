#include "tenon/nn/data/unicode.h"

#include <algorithm>
#include <array>

namespace tenon::unicode {
namespace {

bool in_table(const CodeRange* table, int count, uint32_t code) {
  const CodeRange* const end = table + count;
  const CodeRange* const found = std::lower_bound(
      table, end, code, [](const CodeRange& range, uint32_t c) { return range.last < c; });
  return found != end && found->first <= code;
}

// Unicode's White_Space.
constexpr bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

constexpr std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> classes{};
  for (char32_t c = 0; c < classes.size(); ++c) {
    const char32_t lower = c | 0x20;
    classes[c] = lower >= 'a' && lower <= 'z' ? Class::letter
                 : c >= '0' && c <= '9'       ? Class::number
                 : is_space(c)                ? Class::space
                                              : Class::other;
  }
  return classes;
}

constexpr std::array<Class, 128> kAscii = ascii_classes();

// How many bytes a sequence with this first byte has; 0 if none begins so.
size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or a longer form of ASCII
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t length = sequence_length(byte(0));
  if (length == 1) return {byte(0), 1};
  if (length == 0 || text.size() - at < length) return {};
  char32_t code = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[length] || code > kMaxCode || surrogate) return {};
  return {code, length};
}

void append_utf8(std::string& text, char32_t code) {
  const auto continuation = [&](int shift) {
    text += static_cast<char>(0x80 | (code >> shift & 0x3F));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    continuation(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

Class class_of(char32_t code) {
  if (code < kAscii.size()) return kAscii[code];
  if (in_table(kLetters, kLettersCount, code)) return Class::letter;
  if (in_table(kNumbers, kNumbersCount, code)) return Class::number;
  return is_space(code) ? Class::space : Class::other;
}

}  // namespace tenon::unicode
