#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/nn/linear.h"
#include "tenon/nn/norm.h"
#include "tenon/nn/safetensors.h"
#include "tenon/nn/state.h"
#include "tenon/tests/nn/safetensors_bytes.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_for;
using tenon::testing::error_of;
using tenon::testing::read_file;
using tenon::testing::ScratchDirectory;
using tenon::testing::with_header;
using tenon::testing::write_file;

namespace {

struct Net : Module {
  Child<nn::Linear> fc{this, "fc", 3, 2};
  Child<nn::BatchNorm1d> norm{this, "norm", 2};
};

// The error of one tensor "w" that is described so, with 8 bytes of data.
std::string error_for_entry(const std::string& description) {
  return error_for(with_header("{\"w\":" + description + "}", "01234567"));
}

}  // namespace

TEST_CASE("every dtype and shape survives a safetensors file") {
  const ScratchDirectory directory;
  const std::string path = directory.file("all.safetensors");
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::u8, DType::boolean}) {
    tensors.push_back({str("a.", dtype), from_vector({1, 0, 1, 1, 0, 1}, {2, 3}, {dtype})});
    tensors.push_back({str("scalar.", dtype), scalar(1, {dtype})});
    tensors.push_back({str("none.", dtype), empty({0, 4}, {dtype})});
  }
  save_safetensors(path, tensors, {{"step", "7"}, {"quote", "\"\n\xc3\xa4"}});
  const TensorFile file = load_safetensors(path);
  CHECK(file.metadata.at("step") == "7");
  CHECK(file.metadata.at("quote") == "\"\n\xc3\xa4");
  REQUIRE(file.tensors.size() == tensors.size());
  size_t found = 0;
  for (const auto& [name, tensor] : tensors) {
    for (const auto& [other, loaded] : file.tensors) {
      if (other != name) continue;
      ++found;
      CHECK(loaded.dtype() == tensor.dtype());
      CHECK(loaded.shape() == tensor.shape());
      CHECK(loaded.to_vector() == tensor.to_vector());
    }
  }
  CHECK(found == tensors.size());
}

TEST_CASE("the bytes of a safetensors file follow the format") {
  const ScratchDirectory directory;
  const std::string path = directory.file("x");
  save_safetensors(path, {{"w", from_vector({1, 2}, {2})}});
  const std::string bytes = read_file(path);
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const size_t length = (header.size() + 7) / 8 * 8;
  CHECK(bytes.substr(8, header.size()) == header);
  CHECK(static_cast<unsigned char>(bytes[0]) == length);
  REQUIRE(bytes.size() == 8 + length + 8);
  float second = 0;
  std::memcpy(&second, bytes.data() + bytes.size() - 4, 4);
  CHECK(second == 2);
}

TEST_CASE("a foreign order of names and an empty file are read") {
  const ScratchDirectory directory;
  const std::string path = directory.file("x");
  write_file(path, with_header(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
      "a":{"shape":[1],"data_offsets":[0,1],"dtype":"U8"}}  )",
                               "\x05\x06"));
  const TensorFile file = load_safetensors(path);
  CHECK(file.tensors[0].name == "a");
  CHECK(file.tensors[1].tensor.to_vector() == std::vector<double>{6});
  save_safetensors(path, {});
  CHECK(load_safetensors(path).tensors.empty());
}

TEST_CASE("damaged and foreign safetensors files say what is wrong") {
  const std::string good = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK_THAT(error_for(""), Contains("it has 0 bytes"));
  CHECK_THAT(error_for("abcdefg"), Contains("it has 7 bytes"));
  CHECK_THAT(error_for("PK\3\4 some other kind of file"), Contains("not a safetensors file"));
  CHECK_THAT(error_for(with_header(good, "01234567").substr(0, 20)), Contains("cut short"));
  CHECK_THAT(error_for(with_header(good, "0123")), Contains("tensor w") && Contains("cut short"));
  CHECK_THAT(error_for(with_header(good, "012345678")), Contains("end at byte 8"));
  CHECK_THAT(error_for(with_header("{\"w\": nonsense}")), Contains("not JSON"));
  CHECK_THAT(error_for(with_header("[1, 2]")), Contains("not a JSON object"));
  CHECK_THAT(error_for(with_header(std::string(100000, '['))), Contains("not JSON"));
  CHECK_THAT(error_for(with_header(R"({"__metadata__":{"a":1}})")), Contains("entry a"));
  CHECK_THAT(error_for(with_header(R"({"__metadata__":[]})")), Contains("__metadata__"));
}

TEST_CASE("names that come twice are refused") {
  const std::string w = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK_THAT(error_for(with_header("{" + w + "," + w + "}", "0")), Contains("the name w twice"));
}

TEST_CASE("descriptions of tensors are checked") {
  CHECK_THAT(error_for_entry("3"), Contains("tensor w") && Contains("not an object"));
  CHECK_THAT(error_for_entry("{}"), Contains("no dtype"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[2]})"), Contains("no data_offsets"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F8","shape":[2],"data_offsets":[0,8]})"),
             Contains("unknown dtype: given \"F8\""));
  CHECK_THAT(error_for_entry(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})"),
             Contains("unknown dtype: given 7"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
             Contains("shape is not a list"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
             Contains("shape holds -2"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"),
             Contains("shape holds 2.5"));
  CHECK_THAT(
      error_for_entry(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})"),
      Contains("too large"));
  CHECK_THAT(error_for_entry(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"),
             Contains("9 dimensions"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"),
             Contains("not two numbers"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
             Contains("8 to 0"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,16]})"),
             Contains("outside the data of 8 bytes"));
  CHECK_THAT(error_for_entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
             Contains("needs 12 bytes, data_offsets give 8"));
}

TEST_CASE("tensors may neither overlap nor leave holes") {
  const auto two = [](const std::string& first, const std::string& second) {
    return error_for(with_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                                     R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second +
                                     "}}",
                                 "012345678"));
  };
  CHECK_THAT(two("[0,4]", "[2,6]"), Contains("tensor b") && Contains("overlap"));
  CHECK_THAT(two("[0,4]", "[5,9]"), Contains("tensor b") && Contains("hole"));
}

TEST_CASE("missing files and directories are named") {
  const ScratchDirectory directory;
  CHECK_THAT(bad_data_error_of([&] { load_safetensors(directory.file("x")); }),
             Contains("/x: cannot open it"));
  CHECK_THAT(bad_data_error_of([&] { load_safetensors(directory.path()); }),
             Contains("a directory"));
}

TEST_CASE("saving is whole or not at all") {
  const ScratchDirectory directory;
  const std::string path = directory.file("x");
  save_safetensors(path, {{"w", ones({3})}});
  const std::string before = read_file(path);
  const Tensor strided = ones({2, 3}).as_strided({3, 2}, {1, 3});
  CHECK_THAT(error_of([&] {
               save_safetensors(path, {{"w", strided}});
             }),
             Contains("tensor w is not contiguous"));
  CHECK_THAT(error_of([&] {
               save_safetensors(path, {{"w", ones({1})}, {"w", ones({1})}});
             }),
             Contains("unique names"));
  CHECK_THAT(error_of([&] { save_safetensors(directory.file("no/x"), {}); }),
             Contains("cannot create") && Contains("No such file"));
  std::filesystem::create_directory(directory.file("taken"));
  CHECK_THAT(error_of([&] { save_safetensors(directory.file("taken"), {}); }),
             Contains("cannot rename"));
  CHECK(read_file(path) == before);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    files += entry.is_regular_file();
  }
  CHECK(files == 1);
}

TEST_CASE("a module's state goes through a file and back") {
  const ScratchDirectory directory;
  const std::string path = directory.file("net.safetensors");
  Net net, other;
  net.norm->running_mean = from_vector({4, 5}, {2});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_dict(net)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"fc.weight", "fc.bias", "norm.weight", "norm.bias",
                                          "norm.running_mean", "norm.running_var"});
  save_module(path, net);
  const uint32_t version = other.fc->weight.version();
  load_module(path, other);
  CHECK(other.fc->weight.version() > version);
  CHECK(other.fc->weight.to_vector() == net.fc->weight.to_vector());
  CHECK(other.norm->running_mean.to_vector() == std::vector<double>{4, 5});
  CHECK(other.fc->weight.requires_grad());
}

TEST_CASE("a state that does not fit lists everything and changes nothing") {
  const ScratchDirectory directory;
  const std::string path = directory.file("net.safetensors");
  Net net;
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : state_dict(net)) state.push_back({name, tensor});
  state[0].tensor = ones({2, 4});
  state[1].tensor = ones({2}, {.dtype = DType::f64});
  state[3].name = "norm.shift";
  save_safetensors(path, state);
  const std::vector<double> before = net.fc->weight.to_vector();
  CHECK_THAT(bad_data_error_of([&] { load_module(path, net); }),
             Contains("mismatched: fc.weight, given f32 (2, 4), wanted f32 (2, 3)") &&
                 Contains("mismatched: fc.bias, given f64 (2), wanted f32 (2)") &&
                 Contains("missing: norm.bias") && Contains("unexpected: norm.shift") &&
                 Contains(path));
  CHECK(net.fc->weight.to_vector() == before);
}
