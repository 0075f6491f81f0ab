#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/nn/data/gpt2_split.h"
#include "tenon/nn/data/unicode.h"

using namespace tenon;
using unicode::Character;
using unicode::Class;

namespace {

using Pieces = std::vector<std::string_view>;

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

// Each case is the pieces that their concatenation must fall into.
void check_pieces(const std::vector<Pieces>& cases) {
  for (const Pieces& pieces : cases) {
    const std::string text = joined(pieces);
    CAPTURE(text);
    CHECK(gpt2_split(text) == pieces);
  }
}

}  // namespace

TEST_CASE("words take the space before them, numbers and symbols too") {
  check_pieces({{},
                {"Hello", " world", "!"},
                {"a", " b", " c"},
                {"abc", "123", "def", "4"},
                {" 2024", "-", "05", "-", "20"},
                {"x", " +=", " y", "++;"},
                {"(", "a", ")[", "0", "]", " {}"},
                {"...", " ..."}});
}

TEST_CASE("contractions are cut off, in small letters only") {
  check_pieces({{"don", "'t"},
                {"I", "'ve", " we", "'ll", " you", "'re", " it", "'s", " I", "'m", " he", "'d"},
                {"DON", "'", "T"},
                {"'s", "elf"},
                {"'re", "ad"},
                {"'", "r"},
                {"'", "lx"},
                {" '", "s"},
                {"!'", "s"},
                {"''", "s"},
                {"don", "’", "t"},
                {"'"}});
}

TEST_CASE("of several spaces the last goes with what follows") {
  check_pieces({{"a", " ", " b"},
                {"a", "    ", " b"},
                {"a", "  "},
                {" "},
                {"  "},
                {" ", " a"},
                {"a", "\n", "b"},
                {"a", "\n", "\n", "b"},
                {"a", "\n\n\n", "\n", "b"},
                {"a", " \n ", " b"},
                {"a", " ", "\n", "b"},
                {"a", "\r", "\n", "b"},
                {"a", "\n"},
                {"a", " \t\n"},
                {"\t", "if", " x", ":", "\n\t", "\t", "y"}});
}

TEST_CASE("letters, numbers and spaces are those of Unicode") {
  check_pieces({{"naïve", " café", "123", "é"},
                {"Straße", " Ελλάδα", " Привет"},
                {"漢字", "，", "かなカナ", "。", " 한글"},
                {"x", "²", " ½Ⅳ٣"},
                {"a", "\u00a0", "b"},
                {"a", "\u3000", "\u3000", "b"},
                {"a", "\u2003", " b"},
                {"e", "\u0301", "e"},  // a combining mark is no letter
                {"a", "\u200b", "b"},  // nor is the zero-width space a space
                {"hi", " 👍🏽👨‍👩‍👧", " 🇩🇪"},
                {"\U00010330", "\U0001d7d8"}});  // Gothic ahsa, a double-struck digit
}

TEST_CASE("mixtures that the rule, run as a regular expression, cuts so") {
  check_pieces({{"55०", "'*.", "v", "\u2028", " ''", " ''", "s", " '", "s", "\u2003", " '", "s"},
                {"\x1c", " \n"},
                {"a", " \u3000\u00a0", " '", "ll", "\n", " '", "d"},
                {" \n\n ", " ½", "'s", "'s", "S", "'", "S"},
                {"'''", "ve", "'ve", "e", "  ", "\t", "9"},
                {"\u0085 ", "\u0085", "a", "\u200b", "\u2029"}});
}

TEST_CASE("bytes outside UTF-8 are symbols, and every text is cut without loss") {
  check_pieces({{"a", "\xff\xfe", "b"}, {"a", " \x80", " b"}, {"\xe6\xbc"}, {"é", "\xc3"}});
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = random() % 40; n > 0; --n) {
      text += random() % 2 ? static_cast<char>(random()) : " '\ns\xc3\xa9"[random() % 6];
    }
    const Pieces pieces = gpt2_split(text);
    bool empty = false;
    for (const std::string_view piece : pieces) empty = empty || piece.empty();
    CHECK_FALSE(empty);
    CHECK(joined(pieces) == text);
  }
}

TEST_CASE("UTF-8 is read strictly and written back") {
  for (const char32_t code : {0x0u, 0x41u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu,
                              0x10000u, 0x10ffffu}) {
    std::string text = "x";
    unicode::append_utf8(text, code);
    CHECK(unicode::character_at(text, 1) == Character{code, text.size() - 1});
    // Cut short it is one wrong byte.
    if (text.size() > 2) {
      CHECK(unicode::character_at(std::string_view(text).substr(0, text.size() - 1), 1) ==
            Character{});
    }
  }
  // Overlong forms, a surrogate, too large a code, stray bytes.
  for (const char* wrong :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff", "\xc3(", "\xe2\x82("}) {
    CHECK(unicode::character_at(wrong, 0) == Character{});
  }
}

TEST_CASE("the classes at the ends of tables") {
  CHECK(unicode::class_of('A') == Class::letter);
  CHECK(unicode::class_of('[') == Class::other);
  CHECK(unicode::class_of('9') == Class::number);
  CHECK(unicode::class_of(0) == Class::other);
  CHECK(unicode::class_of(0xaa) == Class::letter);
  CHECK(unicode::class_of(0xab) == Class::other);
  CHECK(unicode::class_of(0x85) == Class::space);
  CHECK(unicode::class_of(0x323af) == Class::letter);  // the last letter of Unicode 16
  CHECK(unicode::class_of(0x323b0) == Class::other);
  CHECK(unicode::class_of(0x1fbf9) == Class::number);  // the last number
  CHECK(unicode::class_of(unicode::kMaxCode) == Class::other);
  CHECK(unicode::class_of(unicode::kInvalid) == Class::other);
}
