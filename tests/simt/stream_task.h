// Work on an emulated stream. Everything is a task: kernels, copies and memsets, and the calls of
// library fakes (cuBLAS, cuDNN, NCCL), which enqueue theirs here.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace simt {

// Memory that a library task reads or writes, for the checks: `rows` pieces of `bytes`, one every
// `stride` bytes.
struct Access {
  const void* address;
  size_t bytes;
  bool write;
  size_t rows = 1;
  size_t stride = 0;
  bool copies = false;  // reads what may be uninitialised, and passes that on
};

// In eager mode the task has run when this returns; in async mode it runs on the stream's thread.
// Device memory may be touched only inside tasks. `what` names the task in reports.
void enqueue(cudaStream_t stream, const char* what, std::vector<Access> accesses,
             std::function<void()> task);
// As above for code of the host (cudaLaunchHostFunc), which must not touch device memory.
void enqueue_host(cudaStream_t stream, const char* what, std::function<void()> task);

// Whether the stream may be used now: it exists.
bool valid_stream(cudaStream_t stream);
int device_of(cudaStream_t stream);
// The calling thread's (cudaSetDevice).
int current_device();
void set_current_device(int device);

}  // namespace simt
