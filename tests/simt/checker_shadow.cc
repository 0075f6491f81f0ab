// Shadow memory, the table of tasks, and the hooks by which the emulator tells what happens.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "tenon/tests/simt/checker.h"
#include "tenon/tests/simt/checker_memory.h"
#include "tenon/tests/simt/hooks.h"

namespace simt::checker {
namespace {

void* reserve(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("simt: no addresses for shadow memory");
    std::abort();
  }
  return memory;
}

struct TaskEntry {
  uint32_t stream;
  uint32_t time;
  std::string what;
};
std::deque<TaskEntry>& tasks() {
  static std::deque<TaskEntry>& table = *new std::deque<TaskEntry>{{0, 0, "nobody"}};
  return table;
}

}  // namespace

Shadow::Shadow(size_t bytes)
    : granules_((bytes + 3) / 4),
      states_(static_cast<State*>(reserve(granules_ * sizeof(State)))),
      cells_(static_cast<Cell*>(reserve(granules_ * sizeof(Cell)))) {}

Shadow::~Shadow() {
  munmap(states_, granules_ * sizeof(State));
  munmap(cells_, granules_ * sizeof(Cell));
}

void Shadow::set(size_t offset, size_t bytes, bool allocated, bool initialised) {
  const int full = (allocated ? 0xf0 : 0) | (initialised ? 0x0f : 0);
  std::memset(&states_[offset / 4], full, bytes / 4);
  if (bytes % 4 != 0) {
    const int part = (1 << bytes % 4) - 1;
    states_[(offset + bytes) / 4] = static_cast<State>(full & (part << 4 | part));
  }
}

void Shadow::set_freed(size_t offset, size_t bytes) {
  for (size_t i = offset / 4; i < (offset + bytes + 3) / 4; ++i) states_[i] &= 0x0f;
}

std::recursive_mutex& mutex() {
  static std::recursive_mutex& instance = *new std::recursive_mutex;
  return instance;
}

uint32_t number_of(const Task& task) {
  tasks().push_back({task.stream, task.time, task.what});
  return static_cast<uint32_t>(tasks().size() - 1);
}

bool comes_before(uint32_t task, const Clock& clock) {
  const TaskEntry& entry = tasks()[task];
  return clock[entry.stream] >= entry.time;
}

std::string name_of(uint32_t task) { return tasks()[task].what; }

namespace {

std::unordered_map<const Machine*, std::unique_ptr<Kernel>>& kernels() {
  static auto& map = *new std::unordered_map<const Machine*, std::unique_ptr<Kernel>>;
  return map;
}

void kernel_started(Machine& machine) {
  mutex().lock();
  std::unique_ptr<Kernel>& kernel = kernels()[&machine];
  if (kernel == nullptr) kernel = std::make_unique<Kernel>(machine);
  kernel->stream_task = current_task();
  kernel->task = number_of(*kernel->stream_task);
  kernel->reported.clear();
  kernel->fence_seen = kernel->block_fenced = false;
  kernel->released.clear();
  kernel->known.clear();
  kernel->shared.set(0, SharedArena::kBytes, false, false);
  running_kernel = kernel.get();
}

void kernel_ended(Machine&) {
  running_kernel = nullptr;
  mutex().unlock();
}

void block_started(Machine& machine) {
  Kernel* kernel = running_kernel;
  if (kernel == nullptr) return;
  kernel->block_fenced = false;
  kernel->known.clear();
  for (const SharedArena::Array& array : machine.arena().arrays()) {
    kernel->shared.set(static_cast<size_t>(array.start - machine.arena().memory()), array.bytes,
                       true, false);
  }
}

void shared_added(Machine& machine, const char* array, size_t bytes) {
  if (running_kernel == nullptr) return;
  running_kernel->shared.set(static_cast<size_t>(array - machine.arena().memory()), bytes, true,
                             false);
}

void atomic(const void* address, size_t bytes, Site site) {
  Kernel* kernel = running_kernel;
  if (kernel == nullptr) return;
  touch_in_kernel(*kernel, {address, bytes, true, true, site.file});
  if (!kernel->fence_seen) return;
  Releases& releases = kernel->released[address];
  for (const auto& [block, release] : releases) {
    Release& known = kernel->known.emplace(block, release).first->second;
    if (known.epoch < release.epoch) known = release;
  }
  for (const auto& [block, release] : kernel->known) releases.insert_or_assign(block, release);
  if (kernel->block_fenced) {
    releases.insert_or_assign(
        static_cast<uint32_t>(kernel->machine.block_number()),
        Release{kernel->machine.block_epoch(), static_cast<uint16_t>(here.number)});
  }
}

void fence() {
  if (running_kernel == nullptr) return;
  running_kernel->fence_seen = running_kernel->block_fenced = true;
}

}  // namespace

void install() {
  hooks.kernel_started = &kernel_started;
  hooks.kernel_ended = &kernel_ended;
  hooks.block_started = &block_started;
  hooks.shared_added = &shared_added;
  hooks.atomic = &atomic;
  hooks.fence = &fence;
  hooks.allocated = &memory_allocated;
  hooks.freed = &memory_freed;
  hooks.copied = &memory_copied;
  hooks.access = &library_access;
}

}  // namespace simt::checker
