// The state of a module by name: its parameters and buffers.
#pragma once

#include <string>
#include <vector>

#include "tenon/nn/module.h"

namespace tenon {

// Parameters, then buffers. The tensors are the live ones, without their gradient records.
std::vector<NamedTensor> state_dict(const Module& module);
// Copies values in. Names, shapes and dtypes must match exactly, else one Error lists everything
// that is missing, unexpected or different, and nothing is changed.
void load_state_dict(const Module& module, const std::vector<NamedTensor>& state);

// The same through a safetensors file.
void save_module(const std::string& path, const Module& module);
void load_module(const std::string& path, const Module& module);

}  // namespace tenon
