// Errors of CUDA calls as Tenon's: "[op] cudaMalloc failed: cudaErrorMemoryAllocation, out of
// memory (cuda:0)", with what to do about it where something can be done.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace tenon::cuda {

// Throws unless `error` is cudaSuccess; `call` names the CUDA function.
void check(cudaError_t error, const char* op, const char* call);

// After a kernel launch. With $TENON_CUDA_BLOCKING=1 it also waits for the kernel, so that a
// failure is reported by the op it happened in.
void check_launch(cudaError_t error, const char* op, dim3 grid, dim3 block, size_t shared_bytes,
                  cudaStream_t stream);

}  // namespace tenon::cuda
