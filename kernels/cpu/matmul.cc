#include "tenon/kernels/matmul.h"

#include "tenon/core/factory.h"
#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cpu/eigen_gemm.h"
#include "tenon/kernels/cpu/onednn_matmul.h"
#include "tenon/kernels/cpu/onednn_support.h"
#include "tenon/kernels/matmul_problem.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

void run(const Tensor& a, const Tensor& b, Tensor& out, const MatmulEpilogue& epilogue) {
  MatmulProblem problem = describe_matmul(a, b, out, epilogue);
  if (out.numel() == 0) return;
  if constexpr (onednn::kHaveOneDnn) {
    if (problem.k > 0 && onednn::supports(a.dtype())) {
      const bool relu = epilogue.activation == Activation::relu;
      if (relu) problem.activation = Activation::none;
      onednn::matmul(problem);
      if (relu) Unary<Relu>::forward(DeviceType::cpu, out, out, {});
      return;
    }
  }
  eigen_gemm(problem);
  if (epilogue.residual != nullptr) accumulate(DeviceType::cpu, *epilogue.residual, out, 1.0);
}

// Whether both operands repeat along one batch dimension, which oneDNN does not take.
bool repeat_together(const Tensor& a, const Tensor& b) {
  for (int i = 0; i < a.ndim() - 2; ++i) {
    if (a.dim(i) > 1 && a.strides()[i] == 0 && b.strides()[i] == 0) return true;
  }
  return false;
}

// The dtype to compute in: the inputs' own where a library has it.
DType working_dtype(DType dtype, int64_t k) {
  if (dtype == DType::f64) return dtype;
  return k > 0 && onednn::supports(dtype) ? dtype : DType::f32;
}

void matmul_cpu(const Tensor& a, const Tensor& b, Tensor& out, const MatmulEpilogue& epilogue) {
  check_matmul_dtypes(a, b, out);
  const DType dtype = working_dtype(a.dtype(), a.dim(-1));
  auto fits = [dtype](const Tensor& tensor) {
    return tensor.dtype() == dtype && is_matmul_operand(tensor);
  };
  const Tensor left = repeat_together(a, b) ? to_row_major(a, dtype)
                      : fits(a)             ? a
                                            : pack_matrices(a, dtype);
  const Tensor right = fits(b) ? b : pack_matrices(b, dtype);
  MatmulEpilogue applied = epilogue;
  Tensor bias;
  if (epilogue.bias != nullptr) {
    const DType wanted = compute_dtype(dtype);
    bias = *epilogue.bias;
    const bool taken = bias.dtype() == dtype || bias.dtype() == wanted;
    if (!taken || !bias.is_contiguous()) {
      bias = empty(bias.shape(), {wanted, kCpu, Category::other});
      copy(DeviceType::cpu, *epilogue.bias, bias);
    }
    applied.bias = &bias;
  }
  const bool direct =
      (out.dtype() == dtype || out.dtype() == compute_dtype(dtype)) && is_matmul_result(out);
  if (direct) return run(left, right, out, applied);
  Tensor result = empty(out.shape(), {compute_dtype(dtype), kCpu, Category::other});
  if (epilogue.accumulate) copy(DeviceType::cpu, out, result);
  applied.residual = nullptr;
  run(left, right, result, applied);
  if (epilogue.residual != nullptr) accumulate(DeviceType::cpu, *epilogue.residual, result, 1.0);
  copy(DeviceType::cpu, result, out);
}

[[maybe_unused]] const bool filled = matmul.set(DeviceType::cpu, matmul_cpu);

}  // namespace
}  // namespace tenon::kernels
