// Where the access checker listens, if it is linked; the functions may be missing.
#pragma once

#include <cstddef>

#include "tenon/tests/simt/clock.h"
#include "tenon/tests/simt/kernel.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt {

struct Hooks {
  // In a kernel.
  void (*atomic)(const void* address, size_t bytes, Site site) = nullptr;
  void (*shared_added)(const char* array, size_t bytes) = nullptr;
  void (*block_started)() = nullptr;
  // Memory of a device is uninitialised at first; pinned memory is the host's to write.
  void (*allocated)(void* address, size_t bytes, bool uninitialised) = nullptr;
  void (*freed)(void* address, size_t bytes) = nullptr;
  // A library task, before it runs.
  void (*access)(const Task& task, const Access& access) = nullptr;
};
extern Hooks hooks;

}  // namespace simt
