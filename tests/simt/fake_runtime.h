// What the files of the fake CUDA runtime share: failing as CUDA does.
#pragma once

#include <cuda_runtime.h>

namespace simt {

// Remembers the error for cudaGetLastError and returns it.
cudaError_t failed(cudaError_t error);

// false if it was enabled before.
bool enable_peer(int device, int peer);
// Whether kernels on `device` may touch memory of `owner`.
bool may_access(int device, int owner);

}  // namespace simt

// Makes the call fail if the test asked for that ($TENON_EMULATED_FAIL).
#define SIMT_MAY_FAIL(error)                                        \
  do {                                                              \
    if (::simt::shall_fail(__func__)) return ::simt::failed(error); \
  } while (false)
