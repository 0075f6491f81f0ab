// Where the access checker listens, if it is linked; the functions may be missing.
#pragma once

#include <cstddef>

#include "tenon/tests/simt/clock.h"
#include "tenon/tests/simt/kernel.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt {

class Machine;

struct Hooks {
  // In a kernel.
  void (*atomic)(const void* address, size_t bytes, Site site) = nullptr;
  void (*fence)() = nullptr;
  void (*shared_added)(Machine& machine, const char* array, size_t bytes) = nullptr;
  void (*block_started)(Machine& machine) = nullptr;
  // Around it, on the OS thread that runs it.
  void (*kernel_started)(Machine& machine) = nullptr;
  void (*kernel_ended)(Machine& machine) = nullptr;
  // Memory of a device is uninitialised at first; pinned memory is the host's to write.
  void (*allocated)(void* address, size_t bytes, bool uninitialised) = nullptr;
  void (*freed)(void* address, size_t bytes) = nullptr;
  void (*copied)(void* to, const void* from, size_t bytes) = nullptr;
  // What a task that is no kernel says it touches, before it runs.
  void (*access)(const Task& task, const Access& access) = nullptr;
};
extern Hooks hooks;

}  // namespace simt
