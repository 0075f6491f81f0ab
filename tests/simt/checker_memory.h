// The checker's view of device and pinned memory: allocations, and the accesses of library tasks
// and of host code.
#pragma once

#include "tenon/tests/simt/checker.h"

namespace simt::checker {

// The shadow of all device and pinned memory, and where an address is in it.
struct HeapShadow {
  const char* begin;
  const char* end;
  Shadow shadow;

  bool holds(const void* address) const { return address >= begin && address < end; }
  size_t offset(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin);
  }
};
HeapShadow& heap_shadow();

void memory_allocated(void* address, size_t bytes, bool uninitialised);
void memory_freed(void* address, size_t bytes);
void memory_copied(void* to, const void* from, size_t bytes);
void library_access(const Task& task, const Access& access);

// Compares a record with an earlier one of the same memory; `clock` is that of the later one's
// task.
bool unordered(const Record& earlier, const Record& now, const Clock& clock, const Kernel* kernel);
// Enters an access; returns the record that it races with, or nobody's.
Record enter(Cell& cell, const Record& now, bool write, const Clock& clock, const Kernel* kernel);

// Which bytes of the granule at `granule` an access touches, as bits.
inline uint8_t bytes_in(size_t granule, size_t offset, size_t bytes) {
  uint8_t bits = 0x0f;
  if (granule < offset) bits = static_cast<uint8_t>(bits << (offset - granule));
  if (granule + 4 > offset + bytes) {
    bits = static_cast<uint8_t>(bits & (0x0f >> (granule + 4 - offset - bytes)));
  }
  return bits & 0x0f;
}

}  // namespace simt::checker
