#include "tenon/core/trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "tenon/core/check.h"

namespace tenon {

// The layout of the mapped file.
struct EventRing::File {
  char magic[16];
  uint64_t last_id;
  Event events[kCapacity];
};

namespace {

constexpr char kMagic[16] = "tenon ring 1";

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

template <class File>
std::vector<Event> in_order(const File& file) {
  std::vector<Event> events;
  const uint64_t last = file.last_id;
  const uint64_t first = last > EventRing::kCapacity ? last - EventRing::kCapacity + 1 : 1;
  for (uint64_t id = first; id <= last; ++id) {
    events.push_back(file.events[id % EventRing::kCapacity]);
  }
  return events;
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

EventRing::EventRing(const std::string& path) {
  int descriptor = -1;
  if (!path.empty()) {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    TENON_CHECK(descriptor >= 0 && ::ftruncate(descriptor, sizeof(File)) == 0, "trace",
                "cannot create the event ring: given '", path, "': ", std::strerror(errno));
  }
  const int flags = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (descriptor >= 0) ::close(descriptor);
  TENON_CHECK(memory != MAP_FAILED, "trace", "cannot map the event ring: ", std::strerror(errno));
  file_ = static_cast<File*>(memory);
  std::memcpy(file_->magic, kMagic, sizeof(kMagic));
}

EventRing::~EventRing() { ::munmap(file_, sizeof(File)); }

Event& EventRing::slot(uint64_t id) const { return file_->events[id % kCapacity]; }

uint64_t EventRing::begin(EventKind kind, std::string_view op, std::string_view tag, int64_t bytes,
                          int index, int64_t step) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = file_->last_id + 1;
  Event event;
  event.id = id;
  event.step = step;
  event.launch_ns = event.start_ns = now_ns();
  event.bytes = bytes;
  event.kind = kind;
  event.index = index;
  copy_text(event.op, op);
  copy_text(event.tag, tag);
  slot(id) = event;
  file_->last_id = id;
  return id;
}

void EventRing::start(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (Event& event = slot(id); event.id == id) event.start_ns = now_ns();
}

void EventRing::end(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (Event& event = slot(id); event.id == id) event.end_ns = now_ns();
}

std::vector<Event> EventRing::events() const {
  const std::lock_guard lock(mutex_);
  return in_order(*file_);
}

std::vector<Event> EventRing::read(const std::string& path) {
  const auto file = std::make_unique<File>();
  std::ifstream in(path, std::ios::binary);
  const bool complete =
      static_cast<bool>(in.read(reinterpret_cast<char*>(file.get()), sizeof(File)));
  TENON_CHECK(complete && std::memcmp(file->magic, kMagic, sizeof(kMagic)) == 0, "trace",
              "not an event ring: given '", path, "'");
  return in_order(*file);
}

void TrafficCounters::add(const std::string& tag, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Traffic& traffic = by_tag_[tag];
  ++traffic.calls;
  traffic.bytes += bytes;
}

void TrafficCounters::reset() {
  const std::lock_guard lock(mutex_);
  by_tag_.clear();
}

std::map<std::string, Traffic> TrafficCounters::by_tag() const {
  const std::lock_guard lock(mutex_);
  return by_tag_;
}

Traffic TrafficCounters::of(const std::string& tag) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_tag_.find(tag);
  return found == by_tag_.end() ? Traffic{} : found->second;
}

}  // namespace tenon
