// The plug-in's allocator calls these; its own, for a GPU, are weak and do nothing.
#include "tenon/core/cuda/marks.h"

#include "tenon/tests/simt/memory_marks.h"

namespace tenon::cuda {

void mark_allocated(void* data, size_t bytes) { simt::mark_allocated(data, bytes); }
void mark_freed(void* data, size_t bytes) { simt::mark_freed(data, bytes); }

}  // namespace tenon::cuda
