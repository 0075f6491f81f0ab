// A matrix product with everything but numbers and addresses stripped off, so that every
// library gets the same, simplest form: batch dimensions merged, rows of a batch joined into one
// matrix where strides allow, every operand with unit stride in one of its two dimensions.
#pragma once

#include "tenon/core/tensor.h"
#include "tenon/kernels/matmul.h"

namespace tenon::kernels {

// One operand: element (i, j) of matrix b is at data[b . batch_strides + i row + j column].
struct MatmulOperand {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t row = 0;
  int64_t column = 0;
  Strides batch_strides;  // 0 where the operand repeats

  bool transposed() const { return column != 1; }
  int64_t leading() const { return transposed() ? column : row; }
};

struct MatmulProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Shape batch;
  MatmulOperand a;
  MatmulOperand b;
  MatmulOperand out;  // never transposed
  const Tensor* bias = nullptr;
  Activation activation = Activation::none;
  bool accumulate = false;
  const void* residual = nullptr;  // laid out as `out`

  double flops() const {
    return 2.0 * static_cast<double>(batch.numel()) * static_cast<double>(m) *
           static_cast<double>(n) * static_cast<double>(k);
  }
};

// The dtypes of inputs and result are ones that a product has.
void check_matmul_dtypes(const Tensor& a, const Tensor& b, const Tensor& out);

// Whether the last two dimensions can be described as a MatmulOperand.
bool is_matmul_operand(const Tensor& matrices);
// Whether it is one with contiguous rows.
bool is_matmul_result(const Tensor& out);
// A row-major copy in `dtype`; batch dimensions that repeat stay repeated.
Tensor pack_matrices(const Tensor& matrices, DType dtype);

// a and b must be operands, `out` a result.
MatmulProblem describe_matmul(const Tensor& a, const Tensor& b, const Tensor& out,
                              const MatmulEpilogue& epilogue);

}  // namespace tenon::kernels
