#include "tenon/nn/state.h"

#include "tenon/core/named_tensors.h"
#include "tenon/nn/safetensors.h"

namespace tenon {

std::vector<NamedTensor> state_dict(const Module& module) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : module.parameters()) result.push_back({name, tensor.detach()});
  for (const auto& buffer : module.buffers()) {
    result.push_back({buffer.name, buffer.tensor.detach()});
  }
  return result;
}

void load_state_dict(const Module& module, const std::vector<NamedTensor>& state) {
  copy_named_tensors("load_state_dict", state, state_dict(module));
}

void save_module(const std::string& path, const Module& module) {
  save_safetensors(path, state_dict(module));
}

void load_module(const std::string& path, const Module& module) {
  const std::vector<NamedTensor> state = load_safetensors(path).tensors;
  try {
    load_state_dict(module, state);
  } catch (const Error& error) {
    throw Error(str(error.what(), "\n  in ", path), error.kind());
  }
}

}  // namespace tenon
