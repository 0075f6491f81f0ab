#include "tenon/kernels/matmul_problem.h"

#include <algorithm>
#include <utility>

#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"

namespace tenon::kernels {
namespace {

// Strides of the last two dimensions, made definite where a size of 1 leaves them free.
// {0, 0} when neither is 1.
std::pair<int64_t, int64_t> matrix_strides(const Tensor& matrices) {
  const int rank = matrices.ndim();
  const int64_t rows = matrices.shape()[rank - 2];
  const int64_t columns = matrices.shape()[rank - 1];
  int64_t row = matrices.strides()[rank - 2];
  int64_t column = matrices.strides()[rank - 1];
  if (columns <= 1) column = 1;
  if (rows <= 1) row = column == 1 ? std::max<int64_t>(columns, 1) : 1;
  if (column == 1 && row >= columns) return {row, 1};
  if (row == 1 && column >= rows) return {1, column};
  return {0, 0};
}

MatmulOperand describe_operand(const Tensor& matrices) {
  const auto [row, column] = matrix_strides(matrices);
  return {matrices.raw_data(), matrices.dtype(), row, column, {}};
}

void add_batch_dimension(MatmulProblem& problem, int64_t size, int64_t a, int64_t b, int64_t out) {
  const int last = problem.batch.size() - 1;
  auto continues = [&](const MatmulOperand& operand, int64_t stride) {
    return operand.batch_strides[last] == stride * size;
  };
  if (last >= 0 && continues(problem.a, a) && continues(problem.b, b) &&
      continues(problem.out, out)) {
    problem.batch[last] *= size;
    problem.a.batch_strides[last] = a;
    problem.b.batch_strides[last] = b;
    problem.out.batch_strides[last] = out;
    return;
  }
  problem.batch.push_back(size);
  problem.a.batch_strides.push_back(a);
  problem.b.batch_strides.push_back(b);
  problem.out.batch_strides.push_back(out);
}

// The matrices of the last batch dimension are one taller matrix when b repeats and the rows of a
// and out go on with the same stride.
bool join_rows(MatmulProblem& problem) {
  const int last = problem.batch.size() - 1;
  if (last < 0 || problem.b.batch_strides[last] != 0 || problem.a.transposed()) return false;
  const int64_t a = problem.a.batch_strides[last];
  const int64_t out = problem.out.batch_strides[last];
  if (problem.m == 1) {
    if (a < problem.k || out < problem.n) return false;
    problem.a.row = a;
    problem.out.row = out;
  } else if (a != problem.m * problem.a.row || out != problem.m * problem.out.row) {
    return false;
  }
  problem.m *= problem.batch[last];
  problem.batch.erase(last);
  for (auto* operand : {&problem.a, &problem.b, &problem.out}) operand->batch_strides.erase(last);
  return true;
}

}  // namespace

void check_matmul_dtypes(const Tensor& a, const Tensor& b, const Tensor& out) {
  TENON_CHECK(is_floating(a.dtype()), "matmul", "unsupported dtype: given ", a.dtype(),
              ", wanted one of f32, f64, f16, bf16");
  check_same_dtype("matmul", a, b);
  TENON_CHECK(out.dtype() == a.dtype() || out.dtype() == compute_dtype(a.dtype()), "matmul",
              "unsupported dtype of the result: given ", out.dtype(), " for inputs in ", a.dtype());
}

bool is_matmul_operand(const Tensor& matrices) { return matrix_strides(matrices).second != 0; }

bool is_matmul_result(const Tensor& out) {
  const int rank = out.ndim();
  return is_matmul_operand(out) && (out.dim(-1) <= 1 || out.strides()[rank - 1] == 1);
}

Tensor pack_matrices(const Tensor& matrices, DType dtype) {
  Shape shape = matrices.shape();
  for (int i = 0; i < shape.size() - 2; ++i) {
    if (matrices.strides()[i] == 0) shape[i] = 1;
  }
  const Device device = matrices.device();
  Tensor copied = empty(shape, {dtype, device, Category::other});
  copy(device.type, matrices.as_strided(shape, matrices.strides()), copied);
  Strides strides = copied.strides();
  for (int i = 0; i < shape.size() - 2; ++i) {
    if (shape[i] == 1) strides[i] = 0;
  }
  return copied.as_strided(matrices.shape(), strides);
}

MatmulProblem describe_matmul(const Tensor& a, const Tensor& b, const Tensor& out,
                              const MatmulEpilogue& epilogue) {
  MatmulProblem problem;
  problem.m = out.dim(-2);
  problem.n = out.dim(-1);
  problem.k = a.dim(-1);
  problem.a = describe_operand(a);
  problem.b = describe_operand(b);
  problem.out = describe_operand(out);
  problem.bias = epilogue.bias;
  problem.activation = epilogue.activation;
  problem.accumulate = epilogue.accumulate;
  if (epilogue.residual != nullptr) problem.residual = epilogue.residual->raw_data();
  for (int i = 0; i < out.ndim() - 2; ++i) {
    if (out.shape()[i] == 1) continue;
    add_batch_dimension(problem, out.shape()[i], a.strides()[i], b.strides()[i], out.strides()[i]);
  }
  while (join_rows(problem)) {
  }
  return problem;
}

}  // namespace tenon::kernels
