// Bytes of memory that nobody has written (as floats and as doubles NaN) and of memory that was
// given back; and ASan's marks, nothing without ASan.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace simt {

inline constexpr unsigned char kUninitialised = 0xFF;
inline constexpr unsigned char kFreed = 0xFE;

inline void asan_poison([[maybe_unused]] const void* address, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(address, bytes);
#endif
}
inline void asan_unpoison([[maybe_unused]] const void* address, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(address, bytes);
#endif
}

}  // namespace simt
