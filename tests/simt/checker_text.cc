// The words of the checker's reports.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "tenon/core/check.h"
#include "tenon/tests/simt/checker.h"
#include "tenon/tests/simt/device_heap.h"

namespace simt::checker {

std::string describe(const Kernel* kernel, const void* address) {
  const auto* at = static_cast<const char*>(address);
  if (kernel != nullptr) {
    const SharedArena& arena = kernel->machine.arena();
    if (arena.holds(address)) {
      const SharedArena::Array* array = arena.array_before(address);
      return tenon::str("shared array '", array->name, "' (", array->bytes, " bytes) + ",
                        at - array->start);
    }
  }
  if (const auto block = block_before(address)) {
    return tenon::str(block->space == Space::pinned ? "pinned" : "device",
                      " memory: an allocation of ", block->bytes, " bytes + ", at - block->start);
  }
  return tenon::str(space_of(address) == Space::pageable ? "host memory" : "device memory", " at ",
                    address);
}

std::string describe(const Record& record, bool shared) {
  if (record.block == kNoBlock) return "it was touched";
  if (record.block == kManyBlocks) return "several blocks have read it";
  return tenon::str(shared ? "" : tenon::str("block ", record.block, " "), "thread ", record.thread,
                    record.many_threads != 0 ? " and others" : "",
                    record.atomic != 0 ? " changed it atomically" : " touched it");
}

// " (in kernel<float>, softmax.cu:41)", as far as the program has it.
std::string describe_code(const void* code) {
  Dl_info info{};
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return "";
  const auto offset = static_cast<const char*>(code) - static_cast<const char*>(info.dli_fbase);
  char command[1024];
  std::snprintf(command, sizeof command, "addr2line -Cfs -e '%s' 0x%zx 2>/dev/null", info.dli_fname,
                static_cast<size_t>(offset) - 1);
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c == '\n') {
      text += text.find(", ") == std::string::npos ? ", " : "";
    } else {
      text += static_cast<char>(c);
    }
  }
  pclose(pipe);
  return text.empty() ? "" : " (in " + text + ")";
}

}  // namespace simt::checker
