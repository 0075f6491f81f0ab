// Tensor cores: products of 16-bit matrices by whole warps, and what feeds them (PTX ISA, "Matrix
// multiply-accumulate operation using mma instruction"). All lanes call. The emulator has a twin of
// each function that exchanges the same fragments.
//
//   multiply_16x8x16<T>(a, b0, b1, c)     c (16, 8) += a (16, 16) b (16, 8)
//   load_matrices(row, registers)         four 8 x 8 matrices; lane l gives row l % 8 of number l /
//   8 load_transposed(row, registers)       their transposes pack_pair<T>(low, high) two numbers
//   rounded to T exp2_of(x)                            2^x, to about 22 bits; subnormal results are
//   0
//
// Lane l holds, with g = l / 4 and c = 2 (l % 4), pairs along a row of a: (g, c), (g + 8, c), (g, c
// + 8), (g + 8, c + 8), pairs along a column of b: (c, g), (c + 8, g), and of c: (g, c), (g, c +
// 1), (g + 8, c), (g + 8, c + 1). load_matrices gives the pair (g, c) of each matrix.
#pragma once

#include "tenon/core/half.h"
#include "tenon/kernels/cuda/simt.h"

#if !defined(__CUDACC__)

#include "tenon/tests/simt/device_mma.h"

#else

namespace simt {

template <class T>
__device__ inline void multiply_16x8x16(const unsigned (&a)[4], unsigned b0, unsigned b1,
                                        float (&c)[4]) {
  static_assert(sizeof(T) == 2);
  if constexpr (std::is_same_v<T, tenon::BFloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ inline void load_matrices(const void* row, unsigned (&registers)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void load_transposed(const void* row, unsigned (&registers)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

template <class T>
__device__ inline unsigned pack_pair(float low, float high) {
  unsigned pair;
  if constexpr (std::is_same_v<T, tenon::BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

__device__ inline float exp2_of(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace simt

#endif
