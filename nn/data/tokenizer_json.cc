// What a checkpoint keeps of a tokenizer. Apart from the tokenizers because the JSON library takes
// long to compile.
#include <nlohmann/json.hpp>

#include "tenon/core/check.h"
#include "tenon/nn/data/bpe_tokenizer.h"
#include "tenon/nn/data/tokenizer.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

template <class... Parts>
[[noreturn]] void bad(const Parts&... parts) {
  throw Error(str("[tokenizer] ", parts...), ErrorKind::bad_data);
}

std::unique_ptr<Tokenizer> char_tokenizer_of(const Json& saved) {
  const auto characters = saved.at("characters").get<std::string>();
  auto result = std::make_unique<CharTokenizer>(characters);
  if (result->characters() != characters) {
    bad("the characters of a saved tokenizer are not sorted, or one is there twice");
  }
  return result;
}

std::unique_ptr<Tokenizer> bpe_tokenizer_of(const Json& saved) {
  const auto checksum = saved.at("crc32").get<uint32_t>();
  auto result = std::make_unique<BpeTokenizer>(saved.at("file").get<std::string>());
  if (result->checksum() != checksum) {
    bad(result->path(), ": not the file that this tokenizer was saved with: given checksum ",
        result->checksum(), ", wanted ", checksum);
  }
  return result;
}

}  // namespace

std::string ByteTokenizer::to_json() const { return Json{{"tokenizer", name()}}.dump(); }

std::string CharTokenizer::to_json() const {
  return Json{{"tokenizer", name()}, {"characters", characters()}}.dump();
}

std::string BpeTokenizer::to_json() const {
  const Json saved{{"tokenizer", name()}, {"file", path()}, {"crc32", checksum()}};
  // A path may be any bytes.
  return saved.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& json) {
  try {
    const Json saved = Json::parse(json);
    const auto kind = saved.at("tokenizer").get<std::string>();
    if (kind == "byte") return std::make_unique<ByteTokenizer>();
    if (kind == "char") return char_tokenizer_of(saved);
    if (kind == "bpe") return bpe_tokenizer_of(saved);
    bad("unknown kind of a saved tokenizer: given \"", kind, "\", wanted byte, char or bpe");
  } catch (const Json::exception& error) {
    bad("not the description of a tokenizer: ", error.what());
  }
}

}  // namespace tenon
