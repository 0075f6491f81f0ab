// What this machine can do at best, measured in the run that compares kernels with it: memory
// bandwidth and multiply-adds, with the threads that the kernels have.
#pragma once

#include "tenon/core/dtype.h"

namespace tenon::tools {

struct MachineCeilings {
  double copy_gb = 0;    // GB/s, memcpy between buffers larger than the caches, read and written
  double triad_gb = 0;   // the same for a = b + c * d
  double gflop = 0;      // GFLOP/s of multiply-adds, all threads
  double gflop_one = 0;  // one thread
  DType dtype = DType::f32;  // of the multiply-adds

  double bandwidth() const { return copy_gb > triad_gb ? copy_gb : triad_gb; }
};

// Of the default device. On the CPU multiply-adds are in the type that kernels of `dtype` compute
// in. On a CUDA device they are a product of square matrices of `dtype` with 16 `size` elements
// each, and bandwidth is that of its own copy of as many. Each figure takes about `seconds`.
MachineCeilings measure_ceilings(DType dtype, int64_t size, double seconds);

// Its gflop alone, which takes little memory.
double measure_gflop(DType dtype, int64_t size, double seconds);

}  // namespace tenon::tools
