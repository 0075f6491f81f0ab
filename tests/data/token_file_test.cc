#include "tenon/nn/data/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tenon/tests/support/mutator.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_of;
using tenon::testing::Mutator;
using tenon::testing::read_file;
using tenon::testing::ScratchDirectory;
using tenon::testing::write_file;

namespace {

using Ids = std::vector<int64_t>;

constexpr int32_t kGpt2 = 20240520, kLlama3 = 20240801;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string header(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> numbers(256);
  numbers[0] = magic;
  numbers[1] = version;
  numbers[2] = count;
  return bytes_of(numbers);
}

Ids all_of(const Tokens& tokens) {
  Ids ids(static_cast<size_t>(tokens.size()));
  tokens.copy(0, tokens.size(), ids.data());
  return ids;
}

Ids read(const std::string& bytes, TokenFormat format = TokenFormat::detect) {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  write_file(path, bytes);
  return all_of(read_token_file(path, {.format = format}));
}

std::string error_for(const std::string& bytes, TokenFormat format = TokenFormat::detect) {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  write_file(path, bytes);
  const std::string text = bad_data_error_of([&] { read_token_file(path, {.format = format}); });
  CHECK_THAT(text, Contains(path));
  return text;
}

int64_t resident_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("the three formats are told apart by their first bytes") {
  const std::string short_tokens = bytes_of(std::vector<uint16_t>{5, 50256, 0, 65535});
  const std::string long_tokens = bytes_of(std::vector<uint32_t>{5, 128000, 0});
  CHECK(read(header(kGpt2, 1, 4) + short_tokens) == Ids{5, 50256, 0, 65535});
  CHECK(read(header(kLlama3, 7, 3) + long_tokens) == Ids{5, 128000, 0});
  CHECK(read(short_tokens) == Ids{5, 50256, 0, 65535});
  CHECK(read(bytes_of(std::vector<uint16_t>{7})) == Ids{7});
  // Asked for, any bytes are tokens.
  CHECK(read(header(kGpt2, 1, 4), TokenFormat::nanogpt).size() == 512);
  CHECK(read(header(20240326, 1, 4), TokenFormat::nanogpt).size() == 512);
}

TEST_CASE("written files are those of llm.c and nanoGPT, and read back") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  std::vector<int32_t> tokens(100000);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int32_t& token : tokens) token %= 50257;
  for (const TokenFormat format : {TokenFormat::gpt2, TokenFormat::llama3, TokenFormat::nanogpt}) {
    write_token_file(path, tokens, format);
    CHECK(all_of(read_token_file(path, {.format = format})) == Ids(tokens.begin(), tokens.end()));
    CHECK(all_of(read_token_file(path)) == Ids(tokens.begin(), tokens.end()));
  }
  write_token_file(path, std::vector<int32_t>{1, 50256});
  CHECK(read_file(path) == header(kGpt2, 1, 2) + bytes_of(std::vector<uint16_t>{1, 50256}));
  write_token_file(path, std::vector<int32_t>{1, 128255}, TokenFormat::llama3);
  CHECK(read_file(path) == header(kLlama3, 7, 2) + bytes_of(std::vector<uint32_t>{1, 128255}));
}

TEST_CASE("what cannot be written is refused and leaves the old file") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  write_token_file(path, std::vector<int32_t>{1, 2, 3});
  const std::string before = read_file(path);
  CHECK_THAT(error_of([&] {
               write_token_file(path, std::vector<int32_t>{1, 65536});
             }),
             Contains("token 65536 at place 1 does not fit: wanted 0 <= token <= 65535"));
  CHECK_THAT(error_of([&] { write_token_file(path, std::vector<int32_t>{-1}); }),
             Contains("token -1 at place 0"));
  CHECK_THAT(error_of([&] { write_token_file(path, {}); }), Contains("no tokens to write"));
  CHECK_THAT(
      error_of([&] { write_token_file(path, std::vector<int32_t>{1}, TokenFormat::detect); }),
      Contains("no format to write"));
  CHECK_THAT(
      error_of([&] { write_token_file(directory.file("no/where"), std::vector<int32_t>{1}); }),
      Contains("no/where: cannot write it: No such file or directory"));
  CHECK(read_file(path) == before);
}

TEST_CASE("a mapped file stays as it was while another takes its name") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  write_token_file(path, std::vector<int32_t>(5000, 7));
  const Tokens old = read_token_file(path);
  write_token_file(path, std::vector<int32_t>{1});
  CHECK(all_of(old) == Ids(5000, 7));
}

TEST_CASE("damaged and foreign token files say what was found") {
  const std::string good =
      header(kGpt2, 1, 4) + bytes_of(std::vector<uint16_t>{5, 50256, 0, 65535});
  CHECK_THAT(error_for(""), Contains("it is empty"));
  CHECK_THAT(error_for("abc"), Contains("it has 3, an odd number"));
  CHECK_THAT(error_for(good.substr(0, 100)),
             Contains("cut short within its header: 100 bytes, wanted at least 1024"));
  CHECK_THAT(error_for(good.substr(0, 1031)),
             Contains("cut short: 1031 bytes, wanted 1032 for 4 tokens"));
  CHECK_THAT(error_for(good + "xx"), Contains("more data than its header says: 1034 bytes"));
  CHECK_THAT(error_for(header(kGpt2, 2, 4)), Contains("wrong version: given 2") && Contains("1"));
  CHECK_THAT(error_for(header(kLlama3, 1, 4)), Contains("wrong version: given 1") && Contains("7"));
  CHECK_THAT(error_for(header(kGpt2, 1, -1)), Contains("wrong number of tokens: given -1"));
  CHECK_THAT(error_for(header(kGpt2, 1, 0)), Contains("wrong number of tokens: given 0"));
  CHECK_THAT(error_for(header(kLlama3, 7, 0x7fffffff)), Contains("wanted 8589935612"));
  CHECK_THAT(error_for(header(20240326, 3, 50257)),
             Contains("another kind of llm.c's files: it begins with 20240326"));
  CHECK_THAT(error_for(good, TokenFormat::llama3),
             Contains("begins with 20240520, wanted 20240801"));
  CHECK_THAT(error_for("some text", TokenFormat::gpt2), Contains("wanted 20240520"));
}

TEST_CASE("paths that are no files are named") {
  const ScratchDirectory directory;
  const std::string pipe = directory.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(bad_data_error_of([&] { read_token_file(pipe); }), Contains("not a regular file"));
  CHECK_THAT(bad_data_error_of([&] { read_token_file(directory.path()); }),
             Contains("it is a directory"));
  CHECK_THAT(bad_data_error_of([&] { read_token_file(directory.file("x")); }),
             Contains("x: cannot open it: No such file"));
}

TEST_CASE("tokens beyond the vocabulary are named with their place") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  const auto error_at = [&](int64_t vocab_size) {
    return bad_data_error_of([&] { read_token_file(path, {.vocab_size = vocab_size}); });
  };
  std::vector<int32_t> tokens(100000, 9);
  tokens[70000] = 50256;
  for (const TokenFormat format : {TokenFormat::gpt2, TokenFormat::llama3, TokenFormat::nanogpt}) {
    write_token_file(path, tokens, format);
    CHECK(error_at(50257) == "no error");
    CHECK_THAT(error_at(50256), Contains("token 50256 at place 70000") && Contains(path) &&
                                    Contains("wanted numbers below 50256"));
    CHECK_THAT(error_at(9), Contains("token 9 at place 0"));
  }
  write_file(path, header(kLlama3, 7, 2) + bytes_of(std::vector<uint32_t>{0, 0xffffffff}));
  CHECK_THAT(error_at(128256), Contains("token 4294967295 at place 1"));
  CHECK_THAT(error_of([] { Tokens({1, -2}, "mine"); }), Contains("mine: a token is negative"));
}

TEST_CASE("a large file takes no memory, not even when it is checked") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  constexpr int32_t kCount = 64 << 20;
  write_file(path, header(kGpt2, 1, kCount));
  REQUIRE(truncate(path.c_str(), 1024 + 2 * int64_t{kCount}) == 0);
  const int64_t before = resident_bytes();
  const Tokens tokens = read_token_file(path, {.vocab_size = 50257});
  int64_t last = -1;
  tokens.copy(kCount - 1, 1, &last);
  CHECK(last == 0);
  CHECK(resident_bytes() - before < 32 << 20);
}

TEST_CASE("random bytes under random headers are read or refused") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  std::mt19937 random(7);
  int readable = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 3 ? random() % 1200 : 1024 + 2 * (random() % 6), '\0');
    if (random() % 2) {
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
    const int32_t numbers[] = {random() % 2 ? kGpt2 : kLlama3, random() % 2 ? 1 : 7,
                               static_cast<int32_t>(random() % 6)};
    if (random() % 4) std::memcpy(bytes.data(), numbers, std::min(bytes.size(), sizeof(numbers)));
    std::filesystem::remove(path);  // some file systems wait for the disk when one is overwritten
    write_file(path, bytes);
    const auto format = static_cast<TokenFormat>(random() % 4);
    const std::string text = bad_data_error_of([&] {
      const Tokens tokens = read_token_file(path, {.format = format, .vocab_size = 1 + i * 50});
      all_of(tokens);
    });
    REQUIRE_THAT(text, Contains(path) || Contains("no error"));
    readable += text == "no error";
  }
  CHECK(readable > 100);
  CHECK(readable < 1900);
}

TEST_CASE("a damaged token file is read or refused") {
  const ScratchDirectory directory;
  const std::string path = directory.file("tokens.bin");
  std::vector<std::string> fragments;
  for (const int32_t number :
       {0, 1, 7, 63, 65, -1, kGpt2, kLlama3, 20240326, 0x7fffffff, ~0x7fffffff}) {
    fragments.push_back(bytes_of(std::vector<int32_t>{number}));
  }
  std::vector<int32_t> tokens(64);
  std::iota(tokens.begin(), tokens.end(), 1000);
  Mutator mutator(3, fragments);
  for (const TokenFormat format : {TokenFormat::gpt2, TokenFormat::llama3, TokenFormat::nanogpt}) {
    write_token_file(path, tokens, format);
    const std::string good = read_file(path);
    int readable = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::string bytes = mutator.damaged(good, 12);
      std::filesystem::remove(path);
      write_file(path, bytes);
      const TokenFormat asked = mutator.below(2) ? format : TokenFormat::detect;
      const std::string text = bad_data_error_of([&] {
        const Tokens read = read_token_file(path, {asked, mutator.below(2) ? 50257 : 0});
        if (static_cast<size_t>(all_of(read).size()) > bytes.size() / 2) fail("test", "too many");
      });
      CAPTURE(i, bytes.size());
      REQUIRE_THAT(text, (Contains(path) && !Contains("not of kind")) || Contains("no error"));
      readable += text == "no error";
    }
    CHECK(readable > 100);
    CHECK(readable < 2000);
  }
}
