// CUDA's device side for g++: kernels/cuda/simt.h includes this instead of what nvcc has built in,
// and the same kernels run on the CPU (README.md). Built-in variables, barriers and the macros for
// shared memory are here; warp functions, atomics and math are in the files it includes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "tenon/tests/simt/kernel.h"

#define threadIdx (::simt::here.thread)
#define blockIdx (::simt::here.block)
#define blockDim (::simt::here.block_size)
#define gridDim (::simt::here.grid_size)
#define warpSize 32

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __maxnreg__
#define __maxnreg__(...)
// A static array has no red zones and no poison, and all threads of the process would share it.
#undef __shared__
#define __shared__ use_SIMT_SHARED_instead_of_the_keyword

// nvcc also takes no initialisers, not even those of a default constructor.
#define SIMT_SHARED(type, name, extent)                                         \
  static_assert(std::is_trivially_default_constructible_v<type>,                \
                "shared memory is not initialised: " #type " must be trivial"); \
  static constinit ::simt::SharedSite simt_site_##name{                         \
      #name, sizeof(std::type_identity_t<type extent>), alignof(type)};         \
  std::type_identity_t<type extent>& name =                                     \
      *static_cast<std::type_identity_t<type extent>*>(::simt::shared_array(&simt_site_##name))
#define SIMT_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::simt::dynamic_shared())

#define SIMT_SITE const char *simt_file = __builtin_FILE(), int simt_line = __builtin_LINE()
#define SIMT_HERE (::simt::Site{simt_file, simt_line})

inline void __syncthreads(SIMT_SITE) { ::simt::block_barrier(::simt::Vote::none, 0, SIMT_HERE); }
inline int __syncthreads_count(int predicate, SIMT_SITE) {
  return ::simt::block_barrier(::simt::Vote::count, predicate, SIMT_HERE);
}
inline int __syncthreads_and(int predicate, SIMT_SITE) {
  return ::simt::block_barrier(::simt::Vote::all, predicate, SIMT_HERE);
}
inline int __syncthreads_or(int predicate, SIMT_SITE) {
  return ::simt::block_barrier(::simt::Vote::any, predicate, SIMT_HERE);
}

// One thread runs at a time and all see the same memory; the checker takes note.
inline void __threadfence() { ::simt::fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { ::simt::fence(); }
inline void __nanosleep(unsigned) {}
inline void __trap(SIMT_SITE) { ::simt::trap(SIMT_HERE); }

#include "tenon/tests/simt/device_atomics.h"
#include "tenon/tests/simt/device_math.h"
#include "tenon/tests/simt/device_warp.h"
