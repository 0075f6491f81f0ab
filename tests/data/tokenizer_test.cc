#include "tenon/nn/data/tokenizer.h"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

#include "tenon/tests/support/scratch.h"

using namespace std::string_literals;
using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_of;

namespace {

using Ids = std::vector<int32_t>;

ErrorKind kind_of_unknown_spec() {
  try {
    make_tokenizer("words", "");
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::failed;
}

}  // namespace

TEST_CASE("the byte tokenizer takes every byte and gives it back") {
  const ByteTokenizer tokenizer;
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const Ids ids = tokenizer.encode(all);
  CHECK(tokenizer.vocab_size() == 256);
  CHECK(ids.front() == 0);
  CHECK(ids.back() == 255);
  CHECK(tokenizer.decode(ids) == all);
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.encode("é") == Ids{0xc3, 0xa9});
  CHECK_THAT(error_of([&] {
               tokenizer.decode(Ids{1, 256});
             }),
             Contains("given 256, wanted 0 <= token < 256"));
  CHECK_THAT(error_of([&] { tokenizer.decode(Ids{-1}); }), Contains("given -1"));
}

TEST_CASE("the char tokenizer numbers the characters of its corpus in their order") {
  const CharTokenizer tokenizer("hello world\n");
  CHECK(tokenizer.characters() == "\n dehlorw");
  CHECK(tokenizer.vocab_size() == 9);
  CHECK(tokenizer.encode("\nhe w") == Ids{0, 4, 3, 1, 8});
  CHECK(tokenizer.decode(Ids{4, 3, 5, 5, 6}) == "hello");
  CHECK(CharTokenizer("a").encode("aaa") == Ids{0, 0, 0});
  CHECK(CharTokenizer("a\0b"s).vocab_size() == 3);
}

TEST_CASE("the characters are those of UTF-8, not its bytes") {
  const std::string corpus = "zß漢👍é zé";
  const CharTokenizer tokenizer(corpus);
  CHECK(tokenizer.characters() == " zßé漢👍");
  CHECK(tokenizer.encode("é👍") == Ids{3, 5});
  CHECK(tokenizer.decode(tokenizer.encode(corpus)) == corpus);
}

TEST_CASE("an unknown character is named with its place") {
  const CharTokenizer tokenizer("abcé");
  CHECK_THAT(bad_data_error_of([&] { tokenizer.encode("éaxb"); }),
             Contains("\"x\" (U+0078) at byte offset 3, wanted one of the 4"));
  CHECK_THAT(bad_data_error_of([&] { tokenizer.encode("a👍"); }), Contains("\"👍\" (U+1F44D)"));
  CHECK_THAT(bad_data_error_of([&] { tokenizer.encode("a\r"); }), Contains("given U+000D at"));
  CHECK_THAT(bad_data_error_of([&] { tokenizer.encode("ab\xff"); }),
             Contains("not UTF-8: given byte 255 at offset 2"));
  CHECK_THAT(error_of([&] { tokenizer.decode(Ids{4}); }), Contains("given 4"));
}

TEST_CASE("corpora without characters are refused") {
  CHECK_THAT(bad_data_error_of([] { CharTokenizer(""); }), Contains("the corpus is empty"));
  CHECK_THAT(bad_data_error_of([] { CharTokenizer("ab\xc3"); }), Contains("byte 195 at offset 2"));
}

TEST_CASE("tokenizers come back from what a checkpoint keeps") {
  const std::string corpus = "\"quotes\" \\ \n\t\0 é 漢 👍 \x7f"s;
  for (const char* spec : {"byte", "char"}) {
    CAPTURE(spec);
    const auto tokenizer = make_tokenizer(spec, corpus);
    const auto restored = tokenizer_from_json(tokenizer->to_json());
    CHECK(restored->name() == spec);
    CHECK(restored->vocab_size() == tokenizer->vocab_size());
    CHECK(restored->encode(corpus) == tokenizer->encode(corpus));
    CHECK(restored->decode(restored->encode(corpus)) == corpus);
    CHECK(restored->to_json() == tokenizer->to_json());
  }
}

TEST_CASE("random text survives every tokenizer") {
  std::mt19937 random(1);
  const std::string alphabet = "abc é漢👍\n";
  const auto chars = make_tokenizer("char", alphabet);
  const Ids letters = chars->encode(alphabet);
  for (int i = 0; i < 200; ++i) {
    Ids ids;
    for (unsigned n = random() % 30; n > 0; --n) ids.push_back(letters[random() % letters.size()]);
    const std::string text = chars->decode(ids);
    CHECK(chars->encode(text) == ids);
    CHECK(ByteTokenizer().decode(ByteTokenizer().encode(text)) == text);
  }
}

TEST_CASE("unknown specifications and damaged descriptions are refused") {
  CHECK(kind_of_unknown_spec() == ErrorKind::usage);
  CHECK_THAT(error_of([] { make_tokenizer("bpe:", ""); }),
             Contains("given \"bpe:\", wanted byte, char or bpe:FILE"));
  for (const char* json :
       {"", "{", "[]", "null", "{\"tokenizer\": 3}", "{\"tokenizer\": \"char\"}",
        "{\"tokenizer\": \"char\", \"characters\": [1]}", "{\"tokenizer\": \"bpe\"}"}) {
    CAPTURE(json);
    CHECK_THAT(bad_data_error_of([&] { tokenizer_from_json(json); }),
               Contains("not the description of a tokenizer"));
  }
  CHECK_THAT(bad_data_error_of([] { tokenizer_from_json("{\"tokenizer\": \"words\"}"); }),
             Contains("unknown kind of a saved tokenizer: given \"words\""));
  for (const char* characters : {"ba", "aab"}) {
    const std::string json = str("{\"tokenizer\":\"char\",\"characters\":\"", characters, "\"}");
    CHECK_THAT(bad_data_error_of([&] { tokenizer_from_json(json); }), Contains("not sorted"));
  }
}
