// TENON_HD marks functions that both the CPU and CUDA kernels call.
#pragma once

#if defined(__CUDACC__)
#define TENON_HD __host__ __device__
#else
#define TENON_HD
#endif
