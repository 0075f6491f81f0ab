// The safetensors file format: 8 bytes with the length of a JSON header (little-endian), the header
// with dtype, shape and place of every tensor, then their bytes. Reading trusts nothing: every
// length, offset and name is checked, and errors (bad_data) name file and tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

struct TensorFile {
  std::vector<NamedTensor> tensors;             // in the order of their bytes
  std::map<std::string, std::string> metadata;  // what the writer noted, "__metadata__"
};

// Appears whole or not at all, also when the machine stops: a temporary file beside `path` is
// written, flushed to the disk and renamed.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});
TensorFile load_safetensors(const std::string& path, Category category = Category::other);

}  // namespace tenon
