#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tenon/nn/data/bpe_tokenizer.h"
#include "tenon/nn/data/gpt2_split.h"
#include "tenon/tests/support/mutator.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_of;
using tenon::testing::Mutator;
using tenon::testing::ScratchDirectory;
using tenon::testing::write_file;

namespace {

using Ids = std::vector<int32_t>;
using Ranks = std::map<std::string, int32_t>;

std::string base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : digits[bits >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

// The 256 bytes in an order that is not theirs, then `merged`.
Ranks ranks_of(const std::vector<std::string>& merged) {
  Ranks ranks;
  for (int i = 0; i < 256; ++i) ranks[std::string(1, static_cast<char>(7 * i + 3))] = i;
  for (const std::string& token : merged) ranks.emplace(token, static_cast<int32_t>(ranks.size()));
  return ranks;
}

std::string file_of(const Ranks& ranks) {
  std::vector<std::string> lines(ranks.size());
  for (const auto& [token, rank] : ranks) {
    lines[static_cast<size_t>(rank)] = str(base64(token), " ", rank, "\n");
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

// The rule said as plainly as possible: while two neighbours make a token, merge the first pair of
// the lowest rank.
void naive_piece(const Ranks& ranks, const std::string& piece, Ids& ids) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  if (ranks.contains(piece)) parts = {piece};
  while (true) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end()) continue;
      if (best == parts.size() || found->second < ranks.at(parts[best] + parts[best + 1])) best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
}

Ids naive(const Ranks& ranks, const std::string& text) {
  Ids ids;
  for (const std::string_view piece : gpt2_split(text)) naive_piece(ranks, std::string(piece), ids);
  return ids;
}

struct Fixture {
  explicit Fixture(const std::vector<std::string>& merged) : ranks(ranks_of(merged)) {
    write_file(path, file_of(ranks));
  }
  ScratchDirectory directory;
  std::string path = directory.file("ranks.tiktoken");
  Ranks ranks;
};

const std::vector<std::string> kMerged = {" t", "he",  "in", "re",  " the", "ing", "an",   " a",
                                          "th", "the", "er", "ere", "é",    "'s",  "\n\n", "   "};

std::string error_for(const std::string& content) {
  const ScratchDirectory directory;
  const std::string path = directory.file("ranks");
  write_file(path, content);
  const std::string text = bad_data_error_of([&] { BpeTokenizer tokenizer(path); });
  CHECK_THAT(text, Contains(path));
  return text;
}

}  // namespace

TEST_CASE("byte pair encoding merges as the plain rule does") {
  const Fixture fixture(kMerged);
  const BpeTokenizer tokenizer(fixture.path);
  CHECK(tokenizer.vocab_size() == 256 + 16 + 1);
  for (const char* text : {"", "the", " the then there", "thing's\n\n  in   the rain", "café été",
                           "hehehe", "ththe", "漢字 👍", "\xff\xfe the"}) {
    CAPTURE(text);
    CHECK(tokenizer.encode(text) == naive(fixture.ranks, text));
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
  // " there": " t" (256) first, "he" (257), "re" (259), then " the" (260).
  CHECK(tokenizer.encode(" there") == Ids{260, 259});
}

TEST_CASE("random ranks and random texts agree with the plain rule") {
  std::mt19937 random(3);
  const auto word = [&](unsigned shortest, unsigned spread) {
    std::string text;
    for (unsigned n = shortest + random() % spread; n > 0; --n) text += "abc "[random() % 4];
    return text;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> merged;
    for (int i = 0; i < 40; ++i) {
      const std::string token = word(2, 5);
      if (std::find(merged.begin(), merged.end(), token) == merged.end()) merged.push_back(token);
    }
    const Fixture fixture(merged);
    const BpeTokenizer tokenizer(fixture.path);
    for (int i = 0; i < 100; ++i) {
      const std::string text = word(0, 60);
      CAPTURE(round, text);
      REQUIRE(tokenizer.encode(text) == naive(fixture.ranks, text));
    }
  }
}

TEST_CASE("a piece that is a token is that token, though no merges lead to it") {
  const Fixture fixture({"xyz"});
  const BpeTokenizer tokenizer(fixture.path);
  CHECK(tokenizer.encode("xyz") == Ids{256});
  CHECK(tokenizer.encode("xyzx").size() == 4);
}

TEST_CASE("a piece of 300 000 characters takes no time to speak of") {
  const Fixture fixture({"aa", "ab", "aaaa", "abab", "ba"});
  const BpeTokenizer tokenizer(fixture.path);
  constexpr size_t kMany = 300'000;  // searching all pairs before each merge would take minutes
  CHECK(tokenizer.encode(std::string(kMany, 'a')) == Ids(kMany / 4, 258));
  std::string text;
  for (size_t i = 0; i < kMany / 2; ++i) text += "ab";
  CHECK(tokenizer.encode(text) == Ids(kMany / 4, 259));
  CHECK(tokenizer.encode(std::string(kMany, '!')).size() == kMany);
  CHECK(tokenizer.encode(std::string(kMany, ' ') + "x").size() == kMany + 1);
}

TEST_CASE("the end of text is special only when asked for") {
  const Fixture fixture(kMerged);
  const BpeTokenizer tokenizer(fixture.path);
  const int32_t end = tokenizer.end_of_text();
  CHECK(end == 272);
  const std::string text = "<|endoftext|>the<|endoftext|><|endoftext|> a <|endoftext";
  const Ids plain = tokenizer.encode(text);
  CHECK(std::count(plain.begin(), plain.end(), end) == 0);
  CHECK(tokenizer.decode(plain) == text);
  const Ids special = tokenizer.encode_with_special(text);
  CHECK(std::count(special.begin(), special.end(), end) == 3);
  CHECK(special[0] == end);
  CHECK(special[1] == fixture.ranks.at("the"));
  CHECK(tokenizer.decode(special) == text);
  CHECK(tokenizer.encode_with_special("<|endoftext|>") == Ids{end});
  CHECK(tokenizer.encode_with_special("").empty());
  CHECK_THAT(error_of([&] { tokenizer.decode(Ids{273}); }),
             Contains("given 273, wanted 0 <= token < 273"));
}

TEST_CASE("a saved tokenizer notices that its file has changed") {
  const Fixture fixture(kMerged);
  const auto tokenizer = make_tokenizer("bpe:" + fixture.path, "");
  CHECK(tokenizer->name() == "bpe");
  const std::string json = tokenizer->to_json();
  CHECK(tokenizer_from_json(json)->encode(" the rain") == tokenizer->encode(" the rain"));
  write_file(fixture.path, file_of(ranks_of({"he"})));
  CHECK_THAT(bad_data_error_of([&] { tokenizer_from_json(json); }),
             Contains(fixture.path) && Contains("not the file that this tokenizer was saved with"));
}

TEST_CASE("ranks may be in any order, with empty lines and with lines as Windows ends them") {
  const std::string good = file_of(ranks_of(kMerged));
  std::string other;
  for (size_t begin = 0; begin < good.size();) {
    const size_t end = good.find('\n', begin);
    other = good.substr(begin, end - begin) + "\r\n\n" + other;
    begin = end + 1;
  }
  const Fixture fixture(kMerged);
  const BpeTokenizer tokenizer(fixture.path);
  const std::string path = fixture.directory.file("other");
  write_file(path, other);
  CHECK(BpeTokenizer(path).encode(" there") == tokenizer.encode(" there"));
}

TEST_CASE("damaged rank files are refused with the line") {
  const std::string good = file_of(ranks_of({"he", "in"}));
  CHECK_THAT(error_for(""), Contains("it is empty"));
  CHECK_THAT(error_for("\n"), Contains("no token for the single byte 0"));
  CHECK_THAT(error_for(good + "aGU\n"), Contains("line 259: no rank: given \"aGU\""));
  CHECK_THAT(error_for(good + "aGUx 258x\n"), Contains("line 259: bad rank: given \"258x\""));
  CHECK_THAT(error_for(good + "aGUx \n"), Contains("line 259: bad rank: given \"\""));
  CHECK_THAT(error_for(good + "aGUx -1\n"), Contains("bad rank: given \"-1\""));
  CHECK_THAT(error_for(good + "aGUx 99999999999\n"), Contains("bad rank: given"));
  for (const char* wrong : {"", "aGU", "aG=x", "a===", "====", "aG!x", "aGV=", "aGUx="}) {
    CAPTURE(wrong);
    CHECK_THAT(error_for(good + wrong + " 258\n"),
               Contains(str("line 259: bad base64: given \"", wrong, "\"")));
  }
  CHECK_THAT(error_for(good + "aGUx 259\n"), Contains("line 259: rank 259 is too large"));
  CHECK_THAT(error_for(good + "aGUx 256\n"),
             Contains("line 259: rank 256 for the second time, first in line 257"));
  CHECK_THAT(error_for(good + base64("he") + " 258\n"),
             Contains("line 259: the same token as in line 257"));
  std::string lacking = good;
  const std::string a = base64("a") + " ";
  lacking.replace(lacking.find(a), a.size(), base64("aqq") + " ");
  CHECK_THAT(error_for(lacking), Contains("no token for the single byte 97"));
  CHECK_THAT(error_for("PK\3\4 and so on"), Contains("line 1: bad rank: given \"and so on\""));
  CHECK_THAT(bad_data_error_of([] { BpeTokenizer tokenizer("/nowhere/ranks"); }),
             Contains("/nowhere/ranks: no such file"));
}

TEST_CASE("a damaged rank file is read or refused") {
  const ScratchDirectory directory;
  const std::string path = directory.file("ranks");
  const std::string good = file_of(ranks_of({"he", "in"}));
  Mutator mutator(5, {"0", "257", "258", "-1", "2147483647", "2147483648", " ", "\n", "\r\n", "=",
                      "====", "\n\n", "aGUx", "aGUx 258\n", "\x1f\x8b", std::string(3, '\0')});
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = mutator.damaged(good, good.size());
    std::filesystem::remove(path);
    write_file(path, bytes);
    const std::string text = bad_data_error_of([&] {
      const BpeTokenizer tokenizer(path);
      tokenizer.decode(tokenizer.encode("hein"));
    });
    CAPTURE(i, bytes);
    REQUIRE_THAT(text, (Contains(path) && !Contains("not of kind")) || Contains("no error"));
    refused += text != "no error";
  }
  CHECK(refused > 1500);
  CHECK(refused < 2000);
}
