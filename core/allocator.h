// The caching allocator: memory freed by one tensor serves the next without going back to the
// system. First touch of fresh pages costs more than most kernels, so nothing is given back during
// training.
//
// Memory is taken in segments (huge pages on the CPU); a segment is split into blocks, best fit,
// and neighbours that are free are joined again. Under AddressSanitizer every request is its own
// allocation, so that overruns are seen.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tenon/core/memory_source.h"

namespace tenon {

class CachingAllocator : public MemorySource {
 public:
  explicit CachingAllocator(Device device) : device_(device) {}
  ~CachingAllocator() override;

  void* allocate(size_t bytes) override;
  void deallocate(void* data, size_t bytes) override;

  // Bytes held from the system.
  size_t reserved() const;
  // Requests that had to go to the system so far.
  size_t system_allocations() const;
  // Gives every segment without a live block back to the system.
  void release_cached();

 private:
  struct Block {
    size_t size = 0;
    bool free = false;
    bool first = false;  // begins a segment
  };
  using Blocks = std::map<char*, Block>;

  Blocks::iterator take_segment(size_t bytes);
  Blocks::iterator join_with_next(Blocks::iterator block);
  void insert_free(Blocks::iterator block);
  void release_idle_segments();

  const Device device_;
  mutable std::mutex mutex_;
  Blocks blocks_;                               // every block by address
  std::set<std::pair<size_t, char*>> free_;     // free blocks by size
  std::unordered_map<char*, size_t> segments_;  // segment begin -> bytes
  size_t reserved_ = 0;
  size_t system_allocations_ = 0;
};

CachingAllocator& caching_allocator(Device device);

}  // namespace tenon
