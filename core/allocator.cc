#include "tenon/core/allocator.h"

#include <algorithm>
#include <cstdlib>

#include "tenon/core/check.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define TENON_PASS_THROUGH 1
#else
#define TENON_PASS_THROUGH 0
#endif

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSegment = size_t{32} << 20;
constexpr size_t kSmallestRest = 256;

constexpr size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

CachingAllocator::~CachingAllocator() { release_cached(); }

void CachingAllocator::insert_free(Blocks::iterator block) {
  block->second.free = true;
  free_.insert({block->second.size, block->first});
}

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(size_t bytes) {
  size_t size = round_up(std::max(bytes, kSegment), kHugePage);
  Runtime& system = runtime(device_.type);
  auto* data = static_cast<char*>(system.allocate(device_.index, size));
  if (data == nullptr) {
    // What lies idle in other segments, and the slack of a whole one, may be what is missing.
    release_idle_segments();
    size = round_up(bytes, kHugePage);
    data = static_cast<char*>(system.allocate(device_.index, size));
  }
  TENON_CHECK(data != nullptr, "memory", "out of memory on ", device_, ": given a request of ",
              bytes, " bytes, ", reserved_, " held already, ", system.memory_report(device_.index),
              "\n", rank_context().memory->table());
  segments_[data] = size;
  reserved_ += size;
  ++system_allocations_;
  return blocks_.emplace(data, Block{size, false, true}).first;
}

void* CachingAllocator::allocate(size_t bytes) {
  const size_t size = round_up(std::max<size_t>(bytes, 1), kAlignment);
  if (TENON_PASS_THROUGH && device_.type == DeviceType::cpu) {
    void* const data = std::aligned_alloc(kAlignment, size);
    TENON_CHECK(data != nullptr, "memory", "out of memory: ", bytes, " bytes asked of the system");
    return data;
  }
  const std::lock_guard lock(mutex_);
  Blocks::iterator block;
  if (const auto found = free_.lower_bound({size, nullptr}); found != free_.end()) {
    block = blocks_.find(found->second);
    free_.erase(found);
  } else {
    block = take_segment(size);
  }
  block->second.free = false;
  if (const size_t rest = block->second.size - size; rest >= kSmallestRest) {
    block->second.size = size;
    insert_free(blocks_.emplace(block->first + size, Block{rest, false, false}).first);
  }
  runtime(device_.type).mark_allocated(block->first, size);
  return block->first;
}

CachingAllocator::Blocks::iterator CachingAllocator::join_with_next(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || !next->second.free || next->second.first) return block;
  free_.erase({next->second.size, next->first});
  block->second.size += next->second.size;
  blocks_.erase(next);
  return block;
}

void CachingAllocator::deallocate(void* data, size_t) {
  if (TENON_PASS_THROUGH && device_.type == DeviceType::cpu) {
    std::free(data);
    return;
  }
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(static_cast<char*>(data));
  TENON_ASSERT(block != blocks_.end() && !block->second.free);
  runtime(device_.type).mark_freed(data, block->second.size);
  join_with_next(block);
  if (!block->second.first && block != blocks_.begin()) {
    if (const auto previous = std::prev(block); previous->second.free) {
      free_.erase({previous->second.size, previous->first});
      previous->second.free = false;
      block->second.free = true;
      free_.insert({block->second.size, block->first});
      block = join_with_next(previous);
    }
  }
  insert_free(block);
}

size_t CachingAllocator::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

size_t CachingAllocator::system_allocations() const {
  const std::lock_guard lock(mutex_);
  return system_allocations_;
}

void CachingAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  release_idle_segments();
}

void CachingAllocator::release_idle_segments() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto block = blocks_.find(segment->first);
    if (block->second.free && block->second.size == segment->second) {
      free_.erase({block->second.size, block->first});
      blocks_.erase(block);
      runtime(device_.type).deallocate(device_.index, segment->first, segment->second);
      reserved_ -= segment->second;
      segment = segments_.erase(segment);
    } else {
      ++segment;
    }
  }
}

CachingAllocator& caching_allocator(Device device) {
  return static_cast<CachingAllocator&>(*caching_source(device));
}

std::shared_ptr<MemorySource> caching_source(Device device) {
  struct Registry {
    std::mutex mutex;
    std::map<std::pair<DeviceType, int>, std::shared_ptr<MemorySource>> sources;
  };
  // Never destroyed: tensors with static lifetime may be freed after main.
  static Registry* const registry = new Registry();
  thread_local std::shared_ptr<MemorySource> cpu;
  if (device == kCpu && cpu) return cpu;
  const std::lock_guard lock(registry->mutex);
  auto& source = registry->sources[{device.type, device.index}];
  if (!source) source = std::make_shared<CachingAllocator>(device);
  if (device == kCpu) cpu = source;
  return source;
}

}  // namespace tenon
