// Bytes alive and peak bytes, by what the memory is for. One object per rank.
//   live = bytes asked for (our own padding included), not what the allocator rounds up to.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace tenon {

enum class Category : uint8_t { parameter, gradient, optimizer, activation, bucket, gather, other };
inline constexpr int kCategoryCount = 7;

constexpr const char* name_of(Category category) {
  constexpr const char* kNames[kCategoryCount] = {
      "parameter", "gradient", "optimizer", "activation", "bucket", "gather", "other"};
  return kNames[static_cast<int>(category)];
}

class MemoryCounters {
 public:
  // Counts `bytes` more; an Error with the table of categories when that would pass the limit.
  void add(Category category, size_t bytes);
  void subtract(Category category, size_t bytes);
  // Counts `bytes` that are alive under another category; the limit plays no part.
  void move(Category from, Category to, size_t bytes);

  int64_t live(Category category) const { return slot(category).live.load(); }
  int64_t peak(Category category) const { return slot(category).peak.load(); }
  int64_t live() const { return total_.live.load(); }
  int64_t peak() const { return total_.peak.load(); }
  // Peaks start again from what is alive now.
  void reset_peak();
  // At most `bytes` alive from now on; 0 means no limit.
  void set_limit(int64_t bytes) { limit_ = bytes; }
  // One line per category: name, live, peak.
  std::string table() const;

 private:
  struct Counter {
    std::atomic<int64_t> live{0};
    std::atomic<int64_t> peak{0};
    void add(int64_t bytes);
  };
  const Counter& slot(Category category) const { return counters_[static_cast<size_t>(category)]; }

  std::array<Counter, kCategoryCount> counters_;
  Counter total_;
  std::atomic<int64_t> limit_{0};
};

}  // namespace tenon
