// For allocators that hand out parts of what cudaMalloc gave them: which parts are in use. A part
// that is marked as allocated is uninitialised again; touching one that is marked as freed is an
// error. Both count when they are called, so they do nothing in async mode, where tasks that may
// still touch the memory have yet to run; nor in protect mode, which has enough to do.
#pragma once

#include <cstddef>

namespace simt {

void mark_allocated(void* address, size_t bytes);
void mark_freed(void* address, size_t bytes);

}  // namespace simt
