#include "tenon/kernels/cpu/eigen_gemm.h"

// g++ 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// Threads are ours: Eigen's own split would fork inside ours.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/pointwise_math.h"

namespace tenon::kernels {
namespace {

template <class T, int Order>
using ConstMatrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>, 0,
                               Eigen::OuterStride<>>;
template <class T>
using RowMajorMatrix = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                                  0, Eigen::OuterStride<>>;

// Calls body with the operand as an Eigen matrix of its own storage order.
template <class T, class Body>
void visit_operand(const MatmulOperand& operand, const T* data, int64_t rows, int64_t columns,
                   Body&& body) {
  const Eigen::OuterStride<> stride(operand.leading());
  if (operand.transposed()) {
    body(ConstMatrix<T, Eigen::ColMajor>(data, rows, columns, stride));
  } else {
    body(ConstMatrix<T, Eigen::RowMajor>(data, rows, columns, stride));
  }
}

template <class T>
void finish_row(const MatmulProblem& problem, T* row) {
  const T* bias = problem.bias != nullptr ? problem.bias->data<T>() : nullptr;
  for (int64_t j = 0; j < problem.n; ++j) {
    const T value = bias != nullptr ? row[j] + bias[j] : row[j];
    switch (problem.activation) {
      case Activation::none:
        row[j] = value;
        break;
      case Activation::relu:
        row[j] = Relu::forward(value, ParamsOf<T>{});
        break;
      case Activation::gelu:
        row[j] = Gelu::forward(value, ParamsOf<T>{});
        break;
    }
  }
}

template <class T>
void multiply_rows(const MatmulProblem& problem, const T* a, const T* b, T* out, int64_t begin,
                   int64_t end) {
  const int64_t rows = end - begin;
  RowMajorMatrix<T> result(out + begin * problem.out.row, rows, problem.n,
                           Eigen::OuterStride<>(problem.out.row));
  if (problem.k == 0) {
    if (!problem.accumulate) result.setZero();
  } else {
    visit_operand(problem.a, a + begin * problem.a.row, rows, problem.k, [&](const auto& left) {
      visit_operand(problem.b, b, problem.k, problem.n, [&](const auto& right) {
        if (problem.accumulate) {
          result.noalias() += left * right;
        } else {
          result.noalias() = left * right;
        }
      });
    });
  }
  if (problem.bias == nullptr && problem.activation == Activation::none) return;
  for (int64_t i = begin; i < end; ++i) finish_row(problem, out + i * problem.out.row);
}

// Element offset of batch number `index`.
int64_t batch_offset(const MatmulProblem& problem, const MatmulOperand& operand, int64_t index) {
  int64_t offset = 0;
  for (int i = problem.batch.size() - 1; i >= 0; --i) {
    offset += index % problem.batch[i] * operand.batch_strides[i];
    index /= problem.batch[i];
  }
  return offset;
}

template <class T>
void run(const MatmulProblem& problem) {
  // Tall enough for Eigen's blocking; a part of the work never crosses a matrix.
  constexpr int64_t kRows = 64;
  const int64_t blocks = (problem.m + kRows - 1) / kRows;
  const int64_t matrices = problem.batch.numel();
  const bool split_rows = matrices < num_threads();
  const int64_t parts = split_rows ? matrices * blocks : matrices;
  const auto work = static_cast<int64_t>(problem.flops() / 16);
  parallel_for(parts, work, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end;) {
      const int64_t matrix = split_rows ? part / blocks : part;
      const int64_t first = split_rows ? part % blocks : 0;
      const int64_t last = split_rows ? std::min(blocks, first + end - part) : blocks;
      const auto* a = static_cast<const T*>(problem.a.data);
      const auto* b = static_cast<const T*>(problem.b.data);
      auto* out = static_cast<T*>(problem.out.data);
      multiply_rows(problem, a + batch_offset(problem, problem.a, matrix),
                    b + batch_offset(problem, problem.b, matrix),
                    out + batch_offset(problem, problem.out, matrix), first * kRows,
                    std::min(last * kRows, problem.m));
      part += split_rows ? last - first : 1;
    }
  });
}

}  // namespace

void eigen_gemm(const MatmulProblem& problem) {
  if (problem.batch.numel() == 0 || problem.m == 0 || problem.n == 0) return;
  dispatch_types<float, double>(problem.out.dtype, "matmul", [&]<class T>() { run<T>(problem); });
}

}  // namespace tenon::kernels
