// The caching allocator's parts as the emulator's memory checks see them. On a GPU nobody looks:
// the functions here are empty and weak, and the emulator (tests/simt) has others.
#pragma once

#include <cstddef>

namespace tenon::cuda {

void mark_allocated(void* data, size_t bytes);
void mark_freed(void* data, size_t bytes);

}  // namespace tenon::cuda
