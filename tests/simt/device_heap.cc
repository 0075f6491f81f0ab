#include "tenon/tests/simt/device_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "tenon/tests/simt/hooks.h"
#include "tenon/tests/simt/memory_marks.h"
#include "tenon/tests/simt/poison.h"
#include "tenon/tests/simt/settings.h"

namespace simt {
namespace {

constexpr size_t kUnit = 512;
constexpr size_t kRedZone = 512;
constexpr size_t kPinnedBytes = size_t{64} << 30;
// Whole allocations beyond this are not filled: the pages of a big one should come as it is used.
constexpr size_t kFillLimit = size_t{64} << 20;
constexpr size_t kFreedFillLimit = size_t{1} << 20;  // and a big one that was freed has none
constexpr uint64_t kSectionsPerGuard = 64;

// A range of addresses. New blocks go behind the last one as long as there is room, so that freed
// memory stays poisoned for long.
struct Region {
  char* begin = nullptr;
  char* end = nullptr;
  char* next = nullptr;
  size_t limit = 0;
  size_t used = 0;
  std::map<const char*, HeapBlock> blocks;

  char* find_room(size_t bytes) {
    if (static_cast<size_t>(end - next) >= bytes + kRedZone) return next;
    char* at = begin + kRedZone;
    for (const auto& [start, block] : blocks) {
      if (start >= at + bytes + kRedZone) return at;
      const size_t taken = (block.bytes + kUnit - 1) / kUnit * kUnit;
      at = block.start + std::max(taken, kUnit) + kRedZone;
    }
    return at + bytes + kRedZone <= end ? at : nullptr;
  }
};

struct Heap {
  std::mutex mutex;
  char* base = nullptr;
  size_t span = 0;  // of each device
  std::vector<Region> devices;
  Region pinned;
  int running = 0;  // HeapAccess objects
  bool accessible = true;
  uint64_t sections = 0;  // in which memory was accessible

  // Changing the pages costs up to a millisecond, so that not every gap between two tasks is
  // guarded: which ones are depends on the seed.
  bool guards_next_gap() { return (++sections + settings().seed) % kSectionsPerGuard == 0; }
  void set_accessible(bool now) {
    if (accessible == now) return;
    accessible = now;
    mprotect(base, devices.size() * span, now ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

  Heap() {
    const auto count = static_cast<size_t>(std::max(settings().devices, 1));
    span = (2 * settings().memory + (size_t{1} << 30)) / 4096 * 4096;
    const size_t bytes = count * span + kPinnedBytes;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("simt: no addresses for the device heap");
      std::abort();
    }
    base = static_cast<char*>(memory);
    devices.resize(count);
    for (size_t i = 0; i < count; ++i) init(devices[i], base + i * span, span, settings().memory);
    init(pinned, base + count * span, kPinnedBytes, kPinnedBytes);
  }
  static void init(Region& region, char* begin, size_t bytes, size_t limit) {
    region.begin = begin;
    region.end = begin + bytes;
    region.next = begin + kRedZone;
    region.limit = limit;
  }
  char* devices_end() const { return base + devices.size() * span; }
  Region* region_of(const void* address) {
    const auto* a = static_cast<const char*>(address);
    if (a < base || a >= pinned.end) return nullptr;
    if (a >= pinned.begin) return &pinned;
    return &devices[static_cast<size_t>(a - base) / span];
  }
};

Heap& heap() {
  static Heap& instance = *new Heap;
  return instance;
}

void* allocate(Region& region, size_t bytes, Space space, int device) {
  const HeapAccess access;
  char* start = nullptr;
  {
    const std::lock_guard lock(heap().mutex);
    const size_t taken = std::max((bytes + kUnit - 1) / kUnit * kUnit, kUnit);
    if (region.used + taken > region.limit) return nullptr;
    start = region.find_room(taken);
    if (start == nullptr) return nullptr;
    region.used += taken;
    if (start == region.next) region.next = start + taken + kRedZone;
    region.blocks[start] = {start, bytes, space, device};
  }
  const size_t rounded = (bytes + kUnit - 1) / kUnit * kUnit;
  asan_poison(start - kRedZone, kRedZone);
  asan_unpoison(start, bytes);
  asan_poison(start + bytes, rounded - bytes + kRedZone);
  if (bytes <= kFillLimit) std::memset(start, kUninitialised, bytes);
  if (hooks.allocated != nullptr) hooks.allocated(start, bytes, space == Space::device);
  return start;
}

}  // namespace

void* allocate_device(int device, size_t bytes) {
  return allocate(heap().devices.at(static_cast<size_t>(device)), bytes, Space::device, device);
}

void* allocate_pinned(size_t bytes) { return allocate(heap().pinned, bytes, Space::pinned, -1); }

bool free_block(void* address, Space space) {
  Region* region = heap().region_of(address);
  if (region == nullptr) return false;
  const HeapAccess access;
  HeapBlock block{};
  {
    const std::lock_guard lock(heap().mutex);
    const auto entry = region->blocks.find(static_cast<const char*>(address));
    if (entry == region->blocks.end() || entry->second.space != space) return false;
    block = entry->second;
  }
  asan_unpoison(block.start, block.bytes);
  if (block.bytes <= kFreedFillLimit) {
    std::memset(block.start, kFreed, block.bytes);
  } else {
    madvise(block.start, block.bytes, MADV_DONTNEED);
  }
  asan_poison(block.start, block.bytes);
  if (hooks.freed != nullptr) hooks.freed(block.start, block.bytes);
  const std::lock_guard lock(heap().mutex);
  region->used -= std::max((block.bytes + kUnit - 1) / kUnit * kUnit, kUnit);
  region->blocks.erase(block.start);
  return true;
}

void mark_allocated(void* address, size_t bytes) {
  if (settings().async || settings().protect || address == nullptr) return;
  asan_unpoison(address, bytes);
  std::memset(address, kUninitialised, bytes);
  if (hooks.allocated != nullptr)
    hooks.allocated(address, bytes, space_of(address) == Space::device);
}

void mark_freed(void* address, size_t bytes) {
  if (settings().async || settings().protect || address == nullptr) return;
  asan_unpoison(address, bytes);
  std::memset(address, kFreed, std::min(bytes, kFillLimit));
  asan_poison(address, bytes);
  if (hooks.freed != nullptr) hooks.freed(address, bytes);
}

size_t free_bytes(int device) {
  const std::lock_guard lock(heap().mutex);
  const Region& region = heap().devices.at(static_cast<size_t>(device));
  return region.limit - region.used;
}

Space space_of(const void* address) {
  const auto* a = static_cast<const char*>(address);
  const Heap& h = heap();
  if (a < h.base || a >= h.pinned.end) return Space::pageable;
  return a < h.pinned.begin ? Space::device : Space::pinned;
}

int device_of_address(const void* address) {
  if (space_of(address) != Space::device) return -1;
  return static_cast<int>(static_cast<size_t>(static_cast<const char*>(address) - heap().base) /
                          heap().span);
}

std::optional<HeapBlock> block_before(const void* address) {
  Region* region = heap().region_of(address);
  if (region == nullptr) return std::nullopt;
  const std::lock_guard lock(heap().mutex);
  auto next = region->blocks.upper_bound(static_cast<const char*>(address));
  if (next == region->blocks.begin()) return std::nullopt;
  return std::prev(next)->second;
}

std::optional<HeapBlock> block_at(const void* address) {
  const std::optional<HeapBlock> block = block_before(address);
  if (!block ||
      static_cast<const char*>(address) >= block->start + std::max<size_t>(block->bytes, 1))
    return std::nullopt;
  return block;
}

HeapRange device_range() { return {heap().base, heap().devices_end()}; }
HeapRange pinned_range() { return {heap().pinned.begin, heap().pinned.end}; }

HeapAccess::HeapAccess() {
  if (!settings().protect) return;
  Heap& h = heap();
  const std::lock_guard lock(h.mutex);
  if (h.running++ == 0) h.set_accessible(true);
}

HeapAccess::~HeapAccess() {
  if (!settings().protect) return;
  Heap& h = heap();
  const std::lock_guard lock(h.mutex);
  if (--h.running == 0 && h.guards_next_gap()) h.set_accessible(false);
}

}  // namespace simt
