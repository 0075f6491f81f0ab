// Reading safetensors files that are anything: they load or are refused, by an Error that names the
// file.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/nn/safetensors.h"
#include "tenon/tests/nn/safetensors_bytes.h"
#include "tenon/tests/support/mutator.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_for;
using tenon::testing::Mutator;
using tenon::testing::read_file;
using tenon::testing::ScratchDirectory;
using tenon::testing::with_header;
using tenon::testing::write_file;

namespace {

// Some tensors of several dtypes, an empty one and metadata.
std::string good_file(const std::string& path) {
  save_safetensors(path,
                   {{"a.weight", ones({3, 4})},
                    {"a.bias", ones({3}, {.dtype = DType::bf16})},
                    {"steps", ones({}, {.dtype = DType::i64})},
                    {"none", empty({0, 5}, {.dtype = DType::u8})},
                    {"mask", ones({2, 3, 2}, {.dtype = DType::boolean})}},
                   {{"format", "pt"}, {"step", "12"}});
  return read_file(path);
}

const std::vector<std::string> kFragments{
    "0",         "1",          "-1",         "8",          "4294967296", "9223372036854775807",
    "1e3",       "1.5",        "null",       "true",       "\"F32\"",    "18446744073709551615",
    "\"I64\"",   "[",          "]",          "{",          "}",          "18446744073709551616",
    "\"",        ",",          ":",          "\\u0000",    "[0,8]",      "[[[[[[[[[[0]]]]]]]]]]",
    "[0,0,0,0]", "\"dtype\":", "\"a.bias\"", "\"shape\":", "\xff",       "\"__metadata__\":{}"};

// Numbers that stand in front of a header.
const std::vector<int64_t> kLengths{
    0, 1, 7, 8, 99'999'999, 100'000'000, 100'000'001, int64_t{1} << 32, int64_t{1} << 62};

}  // namespace

TEST_CASE("a damaged safetensors file is read or refused", "[host]") {
  const ScratchDirectory directory;
  const std::string path = directory.file("model.safetensors");
  const std::string good = good_file(path);
  const size_t header = static_cast<unsigned char>(good[0]) | size_t{1} * (good[1] & 255) << 8;
  const std::string text = good.substr(8, header), data = good.substr(8 + header);
  MemoryCounters& memory = *rank_context().memory;
  Mutator mutator(11, kFragments);
  int loaded = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    if (const size_t kind = mutator.below(8); kind == 0) {
      bytes = mutator.damaged(good, 8 + header);
    } else if (kind == 1) {
      bytes = with_header(text, data, kLengths[mutator.below(kLengths.size())]);
    } else {  // a header of the length that it says
      bytes = with_header(mutator.damaged(text, header), data);
    }
    std::filesystem::remove(path);
    write_file(path, bytes);
    memory.reset_peak();
    const int64_t before = memory.live();
    const std::string error = bad_data_error_of([&] {
      for (const auto& [name, tensor] : load_safetensors(path).tensors) tensor.to_vector();
    });
    CAPTURE(i, bytes);
    REQUIRE_THAT(error, (Contains(path) && !Contains("not of kind")) || Contains("no error"));
    // Each tensor is padded to a few cache lines.
    REQUIRE(memory.peak() - before < static_cast<int64_t>(bytes.size()) + 8 * 256);
    loaded += error == "no error";
  }
  CHECK(loaded > 50);
  CHECK(loaded < 1000);
}

TEST_CASE("what is nested deeply is refused", "[host]") {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  CHECK_THAT(
      error_for(with_header(R"({"w":{"dtype":)" + deep + R"(,"shape":[],"data_offsets":[]}})")),
      Contains("tensor w: unknown dtype: given a list"));
  CHECK_THAT(error_for(with_header(R"({"w":{"dtype":"U8","shape":)" + deep +
                                   R"(,"data_offsets":[0,0]}})")),
             Contains("tensor w: shape holds a list"));
  CHECK_THAT(error_for(with_header("{\"w\":" + deep + "}")), Contains("not an object"));
  CHECK_THAT(error_for(with_header("{\"__metadata__\":{\"a\":" + deep + "}}")),
             Contains("entry a is not a string"));
}

TEST_CASE("no shape overflows, not even one without elements", "[host]") {
  const auto entry = [](const std::string& shape) {
    return with_header(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,0]}})");
  };
  for (const char* shape : {"[0,4294967296,4294967296]", "[4294967296,4294967296,0]",
                            "[0,9223372036854775808]", "[9223372036854775807,0]"}) {
    CAPTURE(shape);
    CHECK_THAT(error_for(entry(shape)), Contains("tensor w: its shape is too large"));
  }
  const ScratchDirectory directory;
  const std::string path = directory.file("model.safetensors");
  write_file(path, entry("[0,1099511627776]"));
  CHECK(load_safetensors(path).tensors[0].tensor.numel() == 0);
}

TEST_CASE("a header of many names takes no longer than its length", "[host]") {
  std::string header = "{";
  for (int i = 0; i < 60000; ++i) {
    header +=
        str(i ? "," : "", "\"", i, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
  }
  const ScratchDirectory directory;
  const std::string path = directory.file("model.safetensors");
  write_file(path, with_header(header + "}"));
  CHECK(load_safetensors(path).tensors.size() == 60000);
}
