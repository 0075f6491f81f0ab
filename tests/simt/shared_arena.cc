#include "tenon/tests/simt/shared_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tenon/tests/simt/poison.h"

namespace simt {
namespace {

constexpr size_t kRedZone = 256;
constexpr size_t kAlignment = 128;
constexpr unsigned char kCanary = 0xA5;

}  // namespace

SharedArena::SharedArena()
    : memory_(static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (memory_ == MAP_FAILED) {
    std::perror("simt: no memory for shared arrays");
    std::abort();
  }
}

SharedArena::~SharedArena() {
  asan_unpoison(memory_, kBytes);
  munmap(memory_, kBytes);
}

void SharedArena::start_launch(size_t dynamic_bytes) {
  asan_unpoison(memory_, used_);
  arrays_.clear();
  used_ = 0;
  static_bytes_ = 0;
  std::memset(memory_, kCanary, kRedZone);
  asan_poison(memory_, kRedZone);
  used_ = kRedZone;
  add(nullptr, "dynamic shared memory", dynamic_bytes, 16);
}

SharedArena::Array& SharedArena::add(const SharedSite* site, const char* name, size_t bytes,
                                     size_t alignment) {
  const size_t to = std::max(alignment, kAlignment);
  const size_t start = (used_ + to - 1) / to * to;
  const size_t end = start + bytes;
  const size_t next = (end + kRedZone + 7) / 8 * 8;
  asan_unpoison(memory_ + used_, next - used_);
  std::memset(memory_ + used_, kCanary, start - used_);
  std::memset(memory_ + start, kUninitialised, bytes);
  std::memset(memory_ + end, kCanary, next - end);
  asan_poison(memory_ + used_, start - used_);
  asan_poison(memory_ + end, next - end);
  used_ = next;
  return arrays_.emplace_back(Array{site, name, memory_ + start, bytes});
}

void SharedArena::start_block() {
  for (const Array& array : arrays_) std::memset(array.start, kUninitialised, array.bytes);
}

const char* SharedArena::overrun() const {
#if !defined(__SANITIZE_ADDRESS__)
  for (const Array& array : arrays_) {
    const auto* after = reinterpret_cast<const unsigned char*>(array.start + array.bytes);
    const auto* before = reinterpret_cast<const unsigned char*>(array.start) - kRedZone / 2;
    const auto broken = [](unsigned char byte) { return byte != kCanary; };
    if (std::any_of(after, after + kRedZone, broken) ||
        std::any_of(before, before + kRedZone / 2, broken)) {
      return array.name;
    }
  }
#endif
  return nullptr;
}

void* SharedArena::find_or_add(const SharedSite* site) {
  for (const Array& array : arrays_) {
    if (array.site == site) return array.start;
  }
  static_bytes_ += site->bytes;
  if (static_bytes_ > kStaticLimit || static_bytes_ + arrays_.front().bytes > kLimit) {
    return nullptr;
  }
  return add(site, site->name, site->bytes, site->alignment).start;
}

const SharedArena::Array* SharedArena::array_at(const void* address) const {
  for (const Array& array : arrays_) {
    if (address >= array.start && address < array.start + array.bytes) return &array;
  }
  return nullptr;
}

const SharedArena::Array* SharedArena::array_before(const void* address) const {
  const Array* found = &arrays_.front();
  for (const Array& array : arrays_) {
    if (array.start <= address) found = &array;
  }
  return found;
}

}  // namespace simt
