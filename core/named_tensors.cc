#include "tenon/core/named_tensors.h"

#include <map>

#include "tenon/core/runtime.h"

namespace tenon {

void copy_named_tensors(const char* op, const std::vector<NamedTensor>& from,
                        const std::vector<NamedTensor>& into) {
  std::string problems;
  auto report = [&](const auto&... parts) { problems += str("\n  ", parts...); };
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : from) {
    if (!given.emplace(name, tensor).second) report("given twice: ", name);
  }
  for (const auto& [name, wanted] : into) {
    const auto found = given.find(name);
    if (found == given.end()) {
      report("missing: ", name, ", wanted ", wanted.dtype(), " ", wanted.shape());
      continue;
    }
    const Tensor& tensor = found->second;
    if (tensor.shape() != wanted.shape() || tensor.dtype() != wanted.dtype()) {
      report("mismatched: ", name, ", given ", tensor.dtype(), " ", tensor.shape(), ", wanted ",
             wanted.dtype(), " ", wanted.shape());
    } else if (!tensor.is_contiguous() || !wanted.is_contiguous()) {
      report("not contiguous: ", name, ", strides ", tensor.strides(), " and ", wanted.strides());
    }
  }
  std::map<std::string, Tensor> expected;
  for (const auto& [name, tensor] : into) expected.emplace(name, tensor);
  for (const auto& [name, tensor] : given) {
    if (!expected.contains(name)) {
      report("unexpected: ", name, ", ", tensor.dtype(), " ", tensor.shape());
    }
  }
  if (!problems.empty()) {
    throw Error(str("[", op, "] the state does not fit:", problems), ErrorKind::bad_data);
  }
  for (const auto& [name, tensor] : into) {
    const Tensor& source = given.at(name);
    if (tensor.numel() == 0) continue;
    copy_bytes(tensor.raw_data(), tensor.device(), source.raw_data(), source.device(),
               tensor.nbytes());
    tensor.bump_version();
  }
}

}  // namespace tenon
