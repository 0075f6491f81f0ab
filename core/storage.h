// Bytes on one device. A Storage keeps its identity while its memory comes and goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tenon/core/device.h"
#include "tenon/core/memory_counters.h"
#include "tenon/core/memory_source.h"

namespace tenon {

class Storage {
 public:
  // Allocates at once. Bytes are counted under `category` for the rank of the calling thread.
  // A null `source` means the caching allocator.
  Storage(size_t bytes, Device device, Category category,
          std::shared_ptr<MemorySource> source = nullptr);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  Category category() const { return category_; }
  MemorySource& source() const { return *source_; }
  // The first byte; an Error while released.
  void* data() const {
    if (data_ == nullptr) [[unlikely]]
      throw_released();
    return data_;
  }
  bool materialized() const { return data_ != nullptr; }
  // Gives the memory back and keeps the identity.
  void release();
  // Takes memory again; its contents are undefined until written.
  void materialize();
  // Counts changes of values. materialize() does not change values; saved tensors compare it.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  void set_version(uint32_t version) { version_.store(version, std::memory_order_relaxed); }
  // Counts the bytes under another category from now on.
  void set_category(Category category);

 private:
  [[noreturn]] void throw_released() const;

  const size_t bytes_;
  const Device device_;
  Category category_;
  const std::shared_ptr<MemorySource> source_;
  const std::shared_ptr<MemoryCounters> counters_;
  void* data_ = nullptr;
  std::atomic<uint32_t> version_{0};
};

}  // namespace tenon
