#include "tenon/tests/simt/checker_memory.h"

#include "tenon/core/check.h"
#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/report.h"

namespace simt::checker {
namespace {

std::string text_of(const void* code, const char* verb, const void* address, size_t bytes,
                    const Record& other) {
  return tenon::str(verb, bytes, " bytes of ", describe(nullptr, address), ": ",
                    describe(other, false), " in '", name_of(other.task),
                    "', and nothing orders the two", code != nullptr ? describe_code(code) : "");
}

// Enters an access of a task that is no kernel; returns false after the first report.
bool enter_all(const char* who, const Record& record, const Clock& clock, const Access& access,
               const char* address, const void* code) {
  HeapShadow& heap = heap_shadow();
  const size_t offset = heap.offset(address);
  Record now = record;
  for (size_t granule = offset / 4 * 4; granule < offset + access.bytes; granule += 4) {
    const uint8_t bytes = bytes_in(granule, offset, access.bytes);
    State& state = heap.shadow.state(granule);
    const char* verb = access.write ? " writes " : " reads ";
    if ((state >> 4 & bytes) != bytes) {
      const bool freed = (state & bytes) != 0;
      report(freed ? Kind::use_after_free : Kind::out_of_bounds,
             tenon::str(who, verb, access.bytes, " bytes of ", describe(nullptr, address), ": ",
                        freed ? "it was freed" : "it is not allocated"));
      return false;
    }
    const bool known = (state & bytes) == bytes;
    if (access.write) state |= bytes;
    if (!access.write && !access.copies && !known) {
      report(Kind::uninitialised,
             tenon::str(who, " reads ", access.bytes, " bytes of ", describe(nullptr, address),
                        ": nobody has written byte ", granule - offset));
      return false;
    }
    now.bytes = bytes & 0x0fu;
    const Record other = enter(heap.shadow.cell(granule), now, access.write, clock, nullptr);
    if (other.task != 0) {
      report(Kind::stream_race, who + text_of(code, verb, address, access.bytes, other));
      return false;
    }
  }
  return true;
}

// The host's accesses between two things that it enqueues are one entry in the table.
uint32_t host_task(const Clock& clock) {
  static uint32_t number = 0;
  static uint32_t time = 0;
  if (number == 0 || time != clock[0]) {
    time = clock[0];
    number = number_of({"host code", 0, time + 1, 0, clock});
  }
  return number;
}

}  // namespace

HeapShadow& heap_shadow() {
  static HeapShadow& instance = *[] {
    const char* begin = device_range().begin;
    const char* end = pinned_range().end;
    return new HeapShadow{begin, end, Shadow(static_cast<size_t>(end - begin))};
  }();
  return instance;
}

void memory_allocated(void* address, size_t bytes, bool uninitialised) {
  const std::lock_guard lock(mutex());
  HeapShadow& heap = heap_shadow();
  heap.shadow.set(heap.offset(address), bytes, true, !uninitialised);
}

void memory_freed(void* address, size_t bytes) {
  const std::lock_guard lock(mutex());
  HeapShadow& heap = heap_shadow();
  heap.shadow.set_freed(heap.offset(address), bytes);
}

// A copy of something that nobody wrote is no error yet; reading the copy is.
void memory_copied(void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex());
  HeapShadow& heap = heap_shadow();
  if (!heap.holds(to) || !heap.holds(from)) return;
  const size_t target = heap.offset(to), source = heap.offset(from);
  if (target % 4 != 0 || source % 4 != 0) return;
  for (size_t i = 0; i < bytes; i += 4) {
    const uint8_t part = bytes_in(i, 0, bytes);
    State& state = heap.shadow.state(target + i);
    const State copied = heap.shadow.state(source + i) & part;
    state = static_cast<State>((state & ~part) | copied);
  }
}

void library_access(const Task& task, const Access& access) {
  const std::lock_guard lock(mutex());
  Record now;
  now.task = number_of(task);
  now.block = kNoBlock;
  const auto* address = static_cast<const char*>(access.address);
  if (!heap_shadow().holds(address) || access.bytes == 0) return;
  for (size_t row = 0; row < access.rows; ++row) {
    if (!enter_all(task.what.c_str(), now, task.clock, access, address + row * access.stride,
                   nullptr)) {
      return;
    }
  }
}

bool concerns_host(const void* address) {
  static const HeapRange device = device_range(), pinned = pinned_range();
  return address >= device.begin && address < pinned.end;
}

void touch_in_host_code(const Touch& touch) {
  if (current_task() != nullptr) return;  // it has said what it touches
  const std::lock_guard lock(mutex());
  if (space_of(touch.address) == Space::device) {
    return report(Kind::host_access,
                  tenon::str("host code touches ", describe(nullptr, touch.address),
                             describe_code(touch.code)));
  }
  Clock clock = host_clock();
  Record now;
  now.task = host_task(clock);
  now.block = kNoBlock;
  clock.advance(0);
  enter_all("host code", now, clock, {touch.address, touch.bytes, touch.write, 1, 0, true},
            static_cast<const char*>(touch.address), touch.code);
}

}  // namespace simt::checker
