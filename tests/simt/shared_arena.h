// The shared memory of a block: every array has red zones around it and begins as NaN.
#pragma once

#include <cstddef>
#include <vector>

#include "tenon/tests/simt/kernel.h"

namespace simt {

class SharedArena {
 public:
  static constexpr size_t kStaticLimit = 48 << 10;
  static constexpr size_t kLimit = 227 << 10;  // of a block, as on compute capability 9.0

  struct Array {
    const SharedSite* site;  // nullptr: the dynamic one
    const char* name;
    char* start;
    size_t bytes;
  };

  SharedArena();
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  void start_launch(size_t dynamic_bytes);
  void start_block();
  // Returns the name of an array that somebody wrote beyond, or nullptr.
  const char* overrun() const;

  void* dynamic() { return arrays_.front().start; }
  // Returns nullptr if the limit is exceeded.
  void* find_or_add(const SharedSite* site);

  bool holds(const void* address) const { return address >= memory_ && address < memory_ + kBytes; }
  // nullptr in the red zones.
  const Array* array_at(const void* address) const;
  // The last one that begins before `address`, to name what was overrun.
  const Array* array_before(const void* address) const;
  const char* memory() const { return memory_; }
  const std::vector<Array>& arrays() const { return arrays_; }

  static constexpr size_t kBytes = 512 << 10;

 private:
  Array& add(const SharedSite* site, const char* name, size_t bytes, size_t alignment);

  char* memory_;
  size_t used_ = 0;
  size_t static_bytes_ = 0;
  std::vector<Array> arrays_;
};

}  // namespace simt
