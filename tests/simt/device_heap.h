// Emulated device memory and pinned host memory. Each device has a range of addresses of its own,
// reserved once, so an address tells where it belongs.
#pragma once

#include <cstddef>
#include <optional>

namespace simt {

enum class Space { pageable, pinned, device };

struct HeapBlock {
  char* start;
  size_t bytes;
  Space space;
  int device;  // -1 for pinned memory
};

// nullptr when the device has no memory left.
void* allocate_device(int device, size_t bytes);
void* allocate_pinned(size_t bytes);
// false if nothing was allocated at `address`.
bool free_block(void* address, Space space);

size_t free_bytes(int device);
Space space_of(const void* address);
int device_of_address(const void* address);  // -1: not device memory
// The allocation that holds the address.
std::optional<HeapBlock> block_at(const void* address);
// The last allocation that begins at or before the address, in the same range.
std::optional<HeapBlock> block_before(const void* address);

struct HeapRange {
  const char* begin;
  const char* end;
};
HeapRange device_range();
HeapRange pinned_range();

// Device memory is accessible while one of these lives; only the protect mode makes it inaccessible
// in between.
class HeapAccess {
 public:
  HeapAccess();
  ~HeapAccess();
  HeapAccess(const HeapAccess&) = delete;
  HeapAccess& operator=(const HeapAccess&) = delete;
};

}  // namespace simt
