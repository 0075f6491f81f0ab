// Slot of the matrix product.
#pragma once

#include "tenon/core/kernel_slot.h"
#include "tenon/core/tensor.h"

namespace tenon::kernels {

enum class Activation : uint8_t { none, relu, gelu };

struct MatmulEpilogue {
  const Tensor* bias = nullptr;  // (N), added to every row
  Activation activation = Activation::none;
  bool accumulate = false;  // out += a b (bias and activation are then not allowed)
  // Of out's shape, dtype and strides, added last (then there is no activation): a residual branch.
  const Tensor* residual = nullptr;
};

// out = activation(a b + bias): a (…, M, K), b (…, K, N), out (…, M, N). The leading dimensions of
// a and b are already broadcast to out's (stride 0 where they repeat). Any strides: a transposed
// operand is a view. Products of 16-bit inputs accumulate in f32; out may be f32 for 16-bit inputs.
inline constinit KernelSlot<void(const Tensor& a, const Tensor& b, Tensor& out,
                                 const MatmulEpilogue&)>
    matmul{"matmul"};

inline const KernelSlotBase* const kMatmulSlots[] = {&matmul};

}  // namespace tenon::kernels
