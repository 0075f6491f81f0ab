#include "tenon/core/cuda/libraries.h"

#include <utility>
#include <vector>

#include "tenon/core/check.h"

namespace tenon::cuda {
namespace {

using Entry = std::pair<const char*, std::string (*)()>;

std::vector<Entry>& entries() {
  static auto* const list = new std::vector<Entry>();
  return *list;
}

}  // namespace

bool add_library(const char* name, std::string (*version)()) {
  entries().emplace_back(name, version);
  return true;
}

std::string libraries() {
  std::string text;
  for (const auto& [name, version] : entries()) {
    text += str(text.empty() ? "" : ", ", name, " ", version());
  }
  return text;
}

std::string cuda_version(int number) { return str(number / 1000, ".", number % 1000 / 10); }

}  // namespace tenon::cuda
