// Copies of 16 bytes from global to shared memory that run while the thread goes on (PTX's
// cp.async). Copies are grouped; waiting makes them visible to the waiting thread, a barrier after
// that to its block. Until then their destination is undefined, which the emulator's twin shows.
//
//   copy_async(to, from, exists)   zeros unless `exists`; `from` is then not read
//   commit_copies()                ends a group
//   wait_copies<N>()               until at most the last N groups are under way
#pragma once

#include "tenon/kernels/cuda/simt.h"

#if !defined(__CUDACC__)

#include "tenon/tests/simt/device_copies.h"

#else

namespace simt {

__device__ inline void copy_async(void* to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(exists ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

}  // namespace simt

#endif
