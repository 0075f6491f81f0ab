#include "tenon/core/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tenon/core/check.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::vector<fs::path> folders() {
  std::vector<fs::path> result;
  if (const std::string own = variable("TENON_PLUGIN_DIR"); !own.empty()) result.emplace_back(own);
  std::error_code ignored;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", ignored); !program.empty()) {
    result.push_back(program.parent_path());
    result.push_back(program.parent_path().parent_path() / "lib");
  }
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&cuda_plugin), &here) != 0 && here.dli_fname != nullptr) {
    result.push_back(fs::path(here.dli_fname).parent_path());
  }
  return result;
}

CudaPlugin without(const std::string& reason) { return {false, {}, reason}; }

CudaPlugin open_library(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return without(str("cannot open the CUDA plug-in: ", ::dlerror()));
  // Registers the runtime, or says why it cannot; a library without it is not ours.
  using Start = const char* (*)();
  const auto start = reinterpret_cast<Start>(::dlsym(library, "tenon_cuda_start"));
  if (start == nullptr) return without(path + " is not a CUDA plug-in of Tenon");
  if (const char* reason = start(); reason != nullptr) return without(reason);
  return {true, path, {}};
}

CudaPlugin find_library(const std::string& name) {
  std::string searched;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return open_library(path);
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  return without(str(name, " not found in ", searched, ": build //tools:", name,
                     ", or name its folder in TENON_PLUGIN_DIR"));
}

CudaPlugin load() {
  const std::string choice = variable("TENON_CUDA");
  if (choice == "off") return without("TENON_CUDA is off");
  if (choice == "emulated" || choice == "checked") {
    return find_library("libtenon_cuda_" + choice + ".so");
  }
  if (choice.find('/') != std::string::npos) return open_library(choice);
  if (!choice.empty()) {
    return without(str("wrong TENON_CUDA: given '", choice,
                       "', wanted off, emulated, checked or a path with a slash"));
  }
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return without("no driver: libcuda.so.1 not found (install NVIDIA's driver, or use the cpu)");
  }
  return find_library("libtenon_cuda.so");
}

}  // namespace

const CudaPlugin& cuda_plugin() {
  static const CudaPlugin* const plugin = new CudaPlugin(load());
  return *plugin;
}

}  // namespace tenon
