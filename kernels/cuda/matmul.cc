#include "tenon/kernels/matmul.h"

#include <algorithm>

#include "tenon/core/factory.h"
#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/bias_activation.h"
#include "tenon/kernels/cuda/gemm.h"
#include "tenon/kernels/matmul_problem.h"

namespace tenon::kernels::cuda {
namespace {

// A batch with several strides takes a call for each matrix of its outer dimensions; with more
// calls than this, copies are cheaper.
constexpr int64_t kMaxCalls = 64;

// The batch dimension that a call takes whole: the largest; -1 without a batch.
int inner_dimension(const Shape& batch) {
  int best = -1;
  for (int i = 0; i < batch.size(); ++i) {
    if (best < 0 || batch[i] > batch[best]) best = i;
  }
  return best;
}

int64_t calls_of(const Shape& batch) {
  const int inner = inner_dimension(batch);
  return inner < 0 ? 1 : batch.numel() / batch[inner];
}

// What the addresses of all matrices are multiples of, as far as the library asks.
uint32_t alignment_of(const MatmulOperand& operand) {
  auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(operand.data)) | 256;
  for (int i = 0; i < operand.batch_strides.size(); ++i) {
    bits |= static_cast<uint64_t>(operand.batch_strides[i]) * size_of(operand.dtype);
  }
  return static_cast<uint32_t>(bits & (~bits + 1));
}

GemmOperand gemm_operand(const MatmulOperand& operand, int inner) {
  return {operand.leading(), operand.transposed(), inner < 0 ? 0 : operand.batch_strides[inner],
          alignment_of(operand)};
}

GemmShape gemm_shape(const MatmulProblem& problem, int inner) {
  GemmShape shape;
  shape.m = problem.m;
  shape.n = problem.n;
  shape.k = problem.k;
  shape.a = gemm_operand(problem.a, inner);
  shape.b = gemm_operand(problem.b, inner);
  shape.out = gemm_operand(problem.out, inner);
  shape.dtype = problem.a.dtype;
  shape.result = problem.out.dtype;
  return shape;
}

// The address of matrix number `call` of the batch dimensions but `inner`, and there of `first`.
void* matrix_at(const MatmulProblem& problem, const MatmulOperand& operand, int inner, int64_t call,
                int64_t first) {
  int64_t offset = inner < 0 ? 0 : first * operand.batch_strides[inner];
  for (int i = problem.batch.size() - 1; i >= 0; --i) {
    if (i == inner) continue;
    offset += call % problem.batch[i] * operand.batch_strides[i];
    call /= problem.batch[i];
  }
  return static_cast<char*>(operand.data) + offset * static_cast<int64_t>(size_of(operand.dtype));
}

// All matrices of the problem; false, and nothing happens, where the library cannot add the bias.
bool multiply_all(Device device, const MatmulProblem& problem, const Tensor* bias,
                  const Tensor* residual) {
  const int inner = inner_dimension(problem.batch);
  const int64_t matrices = inner < 0 ? 1 : problem.batch[inner];
  MatmulOperand addend = problem.out;
  if (residual != nullptr) addend.data = residual->raw_data();
  const bool adds = residual != nullptr || problem.accumulate;
  GemmShape shape = gemm_shape(problem, inner);
  shape.bias = bias != nullptr;
  shape.addend_alignment = alignment_of(addend);
  for (int64_t call = 0; call < calls_of(problem.batch); ++call) {
    for (int64_t first = 0; first < matrices; first += kMaxGemmBatch) {
      shape.batch = std::min(matrices - first, kMaxGemmBatch);
      GemmMemory memory;
      memory.a = matrix_at(problem, problem.a, inner, call, first);
      memory.b = matrix_at(problem, problem.b, inner, call, first);
      memory.out = matrix_at(problem, problem.out, inner, call, first);
      memory.bias = shape.bias ? bias->raw_data() : nullptr;
      if (adds) memory.addend = matrix_at(problem, addend, inner, call, first);
      if (!gemm(device, shape, memory)) return false;
    }
  }
  return true;
}

// The bias as the library takes it.
Tensor plain_bias(const Tensor& bias, DType dtype) {
  const bool aligned = reinterpret_cast<uintptr_t>(bias.raw_data()) % kBiasAlignment == 0;
  if (bias.dtype() == dtype && bias.is_contiguous() && aligned) return bias;
  Tensor copied = empty(bias.shape(), {dtype, bias.device(), Category::other});
  copy(bias.device().type, bias, copied);
  return copied;
}

// Whether the library is asked to add the bias. Its relu is not used, because it may turn NaN into
// 0, nor is its gelu, which is another function (by tanh); f64 has no epilogues.
bool library_adds_bias(const MatmulProblem& problem, const MatmulEpilogue& epilogue) {
  const int inner = inner_dimension(problem.batch);
  return epilogue.bias != nullptr && epilogue.activation == Activation::none &&
         problem.a.dtype != DType::f64 && (inner < 0 || problem.batch[inner] <= kMaxGemmBatch);
}

void multiply(const Tensor& a, const Tensor& b, Tensor& out, const MatmulEpilogue& epilogue);

// By way of a result in memory of its own, which begins as what is added to the product.
void multiply_apart(const Tensor& a, const Tensor& b, Tensor& out, MatmulEpilogue epilogue) {
  const DeviceType cuda = out.device().type;
  Tensor result = empty(out.shape(), {out.dtype(), out.device(), Category::other});
  if (epilogue.accumulate) copy(cuda, out, result);
  if (epilogue.residual != nullptr) {
    copy(cuda, *epilogue.residual, result);
    epilogue.residual = nullptr;
    epilogue.accumulate = true;
  }
  multiply(a, b, result, epilogue);
  copy(cuda, result, out);
}

void multiply_copies(const Tensor& a, const Tensor& b, Tensor& out,
                     const MatmulEpilogue& epilogue) {
  const Tensor left = to_row_major(a, a.dtype()), right = to_row_major(b, b.dtype());
  if (out.is_contiguous()) return multiply(left, right, out, epilogue);
  multiply_apart(left, right, out, epilogue);
}

// Operands and result are as describe_matmul wants them.
void multiply(const Tensor& a, const Tensor& b, Tensor& out, const MatmulEpilogue& epilogue) {
  const MatmulProblem problem = describe_matmul(a, b, out, epilogue);
  if (calls_of(problem.batch) > kMaxCalls) return multiply_copies(a, b, out, epilogue);
  if (library_adds_bias(problem, epilogue)) {
    const Tensor bias = plain_bias(*epilogue.bias, out.dtype());
    if (multiply_all(out.device(), problem, &bias, epilogue.residual)) return;
  }
  multiply_all(out.device(), problem, nullptr, epilogue.residual);
  add_bias_and_activate("matmul", out, epilogue.bias, out.ndim() - 1, epilogue.activation);
}

void matmul_cuda(const Tensor& a, const Tensor& b, Tensor& out, const MatmulEpilogue& epilogue) {
  check_matmul_dtypes(a, b, out);
  if (out.numel() == 0) return;
  const DeviceType cuda = DeviceType::cuda;
  if (a.dim(-1) == 0) {
    if (epilogue.residual != nullptr) {
      copy(cuda, *epilogue.residual, out);
    } else if (!epilogue.accumulate) {
      fill(cuda, out, 0);
    }
    return add_bias_and_activate("matmul", out, epilogue.bias, out.ndim() - 1, epilogue.activation);
  }
  const Tensor left = is_matmul_operand(a) ? a : pack_matrices(a, a.dtype());
  const Tensor right = is_matmul_operand(b) ? b : pack_matrices(b, b.dtype());
  if (is_matmul_result(out)) return multiply(left, right, out, epilogue);
  multiply_apart(left, right, out, epilogue);
}

[[maybe_unused]] const bool registered = matmul.set(DeviceType::cuda, matmul_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
