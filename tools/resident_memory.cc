#include "tenon/tools/resident_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tenon::tools {
namespace {

// A line "VmRSS:    1234 kB" of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name + ":")) continue;
    int64_t kilobytes = 0;
    std::istringstream(line.substr(name.size() + 1)) >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

ResidentMemoryWatch::ResidentMemoryWatch() : before_(status_bytes("VmRSS")) {
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again
}

int64_t ResidentMemoryWatch::peak_growth() const { return status_bytes("VmHWM") - before_; }

int64_t minor_page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace tenon::tools
