#include "tenon/tests/nn/safetensors_bytes.h"

#include <catch2/catch.hpp>

#include "tenon/nn/safetensors.h"
#include "tenon/tests/support/scratch.h"

namespace tenon::testing {

using Catch::Matchers::Contains;

std::string with_header(const std::string& header, const std::string& data, int64_t length) {
  const auto count = static_cast<uint64_t>(length < 0 ? int64_t(header.size()) : length);
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(count >> (8 * i));
  return bytes + header + data;
}

std::string error_for(const std::string& bytes) {
  const ScratchDirectory directory;
  const std::string path = directory.file("model.safetensors");
  write_file(path, bytes);
  const std::string text = bad_data_error_of([&] { load_safetensors(path); });
  CHECK_THAT(text, Contains(path));
  return text;
}

}  // namespace tenon::testing
