// What cuBLASLt's descriptors hold in the emulator, and the product that they describe.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace simt::cublaslt {

struct Operation {
  int32_t compute = CUBLAS_COMPUTE_32F;
  int32_t scale = CUDA_R_32F;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

// Column-major: element (i, j) of matrix b is number b batch_stride + i + j leading.
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

struct Product {
  Operation operation;
  Layout a, b, c, d;

  // Of op(A)'s columns.
  uint64_t inner() const { return operation.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
  bool adds_bias() const { return (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
};

struct Memory {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  double alpha;
  double beta;
};

// What the documentation says about shapes (CUBLAS_STATUS_INVALID_VALUE) and about dtypes and
// epilogues (CUBLAS_STATUS_NOT_SUPPORTED).
cublasStatus_t check(const Product& product);

size_t size_of(cudaDataType_t type);

// Inside a task of the stream.
void multiply(const Product& product, const Memory& memory);

}  // namespace simt::cublaslt
