#include "tenon/tests/simt/settings.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>

namespace simt {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

Settings* from_environment() {
  auto* s = new Settings;
  s->seed = std::strtoull(variable("TENON_SIMT_SEED", "0").c_str(), nullptr, 10);
  s->async = variable("TENON_SIMT_MODE", "eager") == "async";
  s->protect = variable("TENON_SIMT_PROTECT", "0") == "1" && !s->async;
  s->devices = std::atoi(variable("TENON_EMULATED_DEVICES", "8").c_str());
  s->memory = std::strtoull(variable("TENON_EMULATED_MEMORY", "4294967296").c_str(), nullptr, 10);
  return s;
}

// Calls of a function that are still to come before the one that fails.
struct Failures {
  std::mutex mutex;
  std::map<std::string, long, std::less<>> left;
  std::string driver;

  void set(const std::string& list) {
    const std::lock_guard lock(mutex);
    left.clear();
    driver.clear();
    std::istringstream stream(list);
    for (std::string item; std::getline(stream, item, ',');) {
      const size_t colon = item.find(':');
      if (colon == std::string::npos) continue;
      const std::string name = item.substr(0, colon), value = item.substr(colon + 1);
      if (name == "driver") {
        driver = value;
      } else {
        left[name] = std::atol(value.c_str());
      }
    }
  }
};

Failures& failures() {
  static Failures& instance = *[] {
    auto* f = new Failures;
    f->set(variable("TENON_EMULATED_FAIL", ""));
    return f;
  }();
  return instance;
}

}  // namespace

Settings& settings() {
  static Settings& instance = *from_environment();
  return instance;
}

void set_failures(const std::string& list) { failures().set(list); }

bool shall_fail(const char* function) {
  Failures& f = failures();
  const std::lock_guard lock(f.mutex);
  const auto entry = f.left.find(std::string_view(function));
  return entry != f.left.end() && --entry->second == 0;
}

bool driver_is(const char* state) {
  Failures& f = failures();
  const std::lock_guard lock(f.mutex);
  return f.driver == state;
}

}  // namespace simt
