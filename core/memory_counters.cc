#include "tenon/core/memory_counters.h"

#include <iomanip>
#include <sstream>

#include "tenon/core/check.h"

namespace tenon {

void MemoryCounters::Counter::add(int64_t bytes) {
  const int64_t now = live.fetch_add(bytes) + bytes;
  int64_t highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
}

void MemoryCounters::add(Category category, size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  const int64_t limit = limit_.load();
  TENON_CHECK(limit == 0 || total_.live.load() + count <= limit, "memory", "limit reached: ", count,
              " bytes more of ", name_of(category), " asked for, the limit is ", limit,
              " bytes in all\n", table());
  counters_[static_cast<size_t>(category)].add(count);
  total_.add(count);
}

void MemoryCounters::subtract(Category category, size_t bytes) {
  counters_[static_cast<size_t>(category)].live.fetch_sub(static_cast<int64_t>(bytes));
  total_.live.fetch_sub(static_cast<int64_t>(bytes));
}

void MemoryCounters::move(Category from, Category to, size_t bytes) {
  counters_[static_cast<size_t>(from)].live.fetch_sub(static_cast<int64_t>(bytes));
  counters_[static_cast<size_t>(to)].add(static_cast<int64_t>(bytes));
}

void MemoryCounters::reset_peak() {
  for (Counter& counter : counters_) counter.peak = counter.live.load();
  total_.peak = total_.live.load();
}

std::string MemoryCounters::table() const {
  std::ostringstream out;
  out << std::left << std::setw(12) << "category" << std::right << std::setw(16) << "live bytes"
      << std::setw(16) << "peak bytes" << '\n';
  auto row = [&](const char* name, const Counter& counter) {
    out << std::left << std::setw(12) << name << std::right << std::setw(16) << counter.live.load()
        << std::setw(16) << counter.peak.load() << '\n';
  };
  for (int i = 0; i < kCategoryCount; ++i) {
    row(name_of(static_cast<Category>(i)), counters_[static_cast<size_t>(i)]);
  }
  row("all", total_);
  return std::move(out).str();
}

}  // namespace tenon
