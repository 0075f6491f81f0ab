// The event ring: what a rank did last, in a memory-mapped file of fixed size, so that it survives
// even a SIGKILL and names the last collective of a dead rank. Also the per-tag traffic counters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class EventKind : int32_t { phase, collective, mark };

// One record of the ring. Times are of the monotonic clock; end_ns is 0 while it runs.
struct Event {
  uint64_t id = 0;  // 1, 2, 3 … in the order of beginning
  int64_t step = 0;
  int64_t launch_ns = 0;  // collectives: when the caller issued it
  int64_t start_ns = 0;   // when the work itself began
  int64_t end_ns = 0;
  int64_t bytes = 0;
  EventKind kind = EventKind::phase;
  int32_t index = -1;  // bucket or unit number, -1 when it has none
  char op[24] = {};
  char tag[16] = {};
};

int64_t now_ns();

class EventRing {
 public:
  static constexpr int kCapacity = 4096;

  // In anonymous memory, or in the file `path` when it is not empty.
  explicit EventRing(const std::string& path = "");
  ~EventRing();
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  uint64_t begin(EventKind kind, std::string_view op, std::string_view tag, int64_t bytes,
                 int index, int64_t step);
  void start(uint64_t id);  // sets start_ns
  void end(uint64_t id);    // sets end_ns
  // The events still in the ring, oldest first.
  std::vector<Event> events() const;
  // Reads the ring another process left in `path`.
  static std::vector<Event> read(const std::string& path);

 private:
  struct File;
  Event& slot(uint64_t id) const;

  mutable std::mutex mutex_;
  File* file_ = nullptr;
};

// Collectives and their bytes since the last reset, by tag.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};
class TrafficCounters {
 public:
  void add(const std::string& tag, int64_t bytes);
  void reset();
  std::map<std::string, Traffic> by_tag() const;
  Traffic of(const std::string& tag) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Traffic> by_tag_;
};

}  // namespace tenon
