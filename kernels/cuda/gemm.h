// Row-major matrix products by cuBLASLt: one call of the library, without strided views, without
// activations. The rest of the program does not see the library.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "tenon/core/device.h"
#include "tenon/core/dtype.h"

namespace tenon::kernels::cuda {

struct GemmOperand {
  int64_t leading = 0;      // elements between rows, or between columns if transposed
  bool transposed = false;  // columns are contiguous, not rows
  int64_t batch_stride = 0;
  uint32_t alignment = 1;  // of every matrix, in bytes
  auto operator<=>(const GemmOperand&) const = default;
};

// out (M, N) = a (M, K) b (K, N), `batch` times; out is not transposed. No size is 0.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  GemmOperand a;
  GemmOperand b;
  GemmOperand out;
  DType dtype = DType::f32;   // of a and b
  DType result = DType::f32;  // of out and bias
  bool bias = false;
  uint32_t addend_alignment = 1;  // of every matrix, in bytes
  auto operator<=>(const GemmShape&) const = default;
};

struct GemmMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;    // (N), aligned to kBiasAlignment
  const void* addend = nullptr;  // added to the product: of out's layout, or out itself
};

inline constexpr int64_t kMaxGemmBatch = 65535;
inline constexpr uintptr_t kBiasAlignment = 16;

// On the current stream of `device`. False, and nothing happens, where the library cannot add a
// bias to such a product; a product it cannot compute is an Error.
bool gemm(Device device, const GemmShape& shape, const GemmMemory& memory);

// "a (5, 3) b (3, 4)^T bf16, out f32, batch 2", for errors.
std::string describe(const GemmShape& shape);

}  // namespace tenon::kernels::cuda
