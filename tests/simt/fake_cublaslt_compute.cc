// The products of the emulated cuBLASLt: accumulated in f32 (f64 for f64), rounded once.
#include "tenon/tests/simt/fake_cublaslt.h"

// g++ 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "tenon/core/half.h"
#include "tenon/tests/simt/fake_tf32.h"

namespace simt::cublaslt {
namespace {

template <class C>
using Matrix = Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic>;

bool is_16_bit(cudaDataType_t type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }

// Calls body with a null pointer of the element type.
template <class Body>
void with_type(cudaDataType_t type, const Body& body) {
  switch (type) {
    case CUDA_R_64F:
      return body(static_cast<const double*>(nullptr));
    case CUDA_R_16F:
      return body(static_cast<const tenon::Float16*>(nullptr));
    case CUDA_R_16BF:
      return body(static_cast<const tenon::BFloat16*>(nullptr));
    default:
      return body(static_cast<const float*>(nullptr));
  }
}

template <class C>
Matrix<C> load(const Layout& layout, const void* data, int64_t number, bool round) {
  const auto rows = static_cast<int64_t>(layout.rows);
  const auto columns = static_cast<int64_t>(layout.columns);
  Matrix<C> result(rows, columns);
  with_type(layout.type, [&]<class T>(const T*) {
    const T* const from = static_cast<const T*>(data) + number * layout.batch_stride;
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        result(i, j) = static_cast<C>(from[i + j * layout.leading]);
        if (round) result(i, j) = static_cast<C>(to_tf32(static_cast<float>(result(i, j))));
      }
    }
  });
  return result;
}

template <class C>
void store(const Product& product, const Memory& memory, int64_t number, const Matrix<C>& sums) {
  const auto alpha = static_cast<C>(memory.alpha);
  const auto beta = static_cast<C>(memory.beta);
  with_type(product.d.type, [&]<class T>(const T*) {
    const auto* const c = static_cast<const T*>(memory.c) + number * product.c.batch_stride;
    auto* const d = static_cast<T*>(memory.d) + number * product.d.batch_stride;
    const auto* const bias = static_cast<const T*>(product.operation.bias);
    for (int64_t j = 0; j < sums.cols(); ++j) {
      for (int64_t i = 0; i < sums.rows(); ++i) {
        C value = alpha * sums(i, j);
        if (beta != 0) value += beta * static_cast<C>(c[i + j * product.c.leading]);
        if (product.adds_bias()) value += static_cast<C>(bias[i]);
        d[i + j * product.d.leading] = static_cast<T>(value);
      }
    }
  });
}

template <class C>
void multiply_in(const Product& product, const Memory& memory) {
  const bool round = product.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  for (int64_t number = 0; number < product.d.batch; ++number) {
    Matrix<C> a = load<C>(product.a, memory.a, number, round);
    Matrix<C> b = load<C>(product.b, memory.b, number, round);
    if (product.operation.transpose_a != CUBLAS_OP_N) a.transposeInPlace();
    if (product.operation.transpose_b != CUBLAS_OP_N) b.transposeInPlace();
    store<C>(product, memory, number, a * b);
  }
}

cublasStatus_t check_shapes(const Product& product) {
  const Operation& op = product.operation;
  auto rows = [](const Layout& layout, int32_t transpose) {
    return transpose == CUBLAS_OP_N ? layout.rows : layout.columns;
  };
  auto columns = [](const Layout& layout, int32_t transpose) {
    return transpose == CUBLAS_OP_N ? layout.columns : layout.rows;
  };
  const bool fit = rows(product.a, op.transpose_a) == product.d.rows &&
                   columns(product.a, op.transpose_a) == rows(product.b, op.transpose_b) &&
                   columns(product.b, op.transpose_b) == product.d.columns &&
                   product.c.rows == product.d.rows && product.c.columns == product.d.columns;
  if (!fit) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* layout : {&product.a, &product.b, &product.c, &product.d}) {
    if (layout->rows == 0 || layout->columns == 0 || layout->batch != product.d.batch ||
        layout->leading < static_cast<int64_t>(layout->rows)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

size_t size_of(cudaDataType_t type) { return is_16_bit(type) ? 2 : type == CUDA_R_64F ? 8 : 4; }

cublasStatus_t check(const Product& product) {
  if (const cublasStatus_t status = check_shapes(product); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const Operation& op = product.operation;
  const cudaDataType_t in = product.a.type, out = product.d.type;
  if (product.b.type != in || product.c.type != out) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool plain = op.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!plain && op.epilogue != CUBLASLT_EPILOGUE_BIAS) return CUBLAS_STATUS_NOT_SUPPORTED;
  bool supported = false;
  switch (op.compute) {
    case CUBLAS_COMPUTE_64F:
      supported = op.scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F && plain;
      break;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      supported = op.scale == CUDA_R_32F && in == CUDA_R_32F && out == CUDA_R_32F;
      break;
    case CUBLAS_COMPUTE_32F:
      supported = op.scale == CUDA_R_32F && (is_16_bit(in) || in == CUDA_R_32F) &&
                  (out == in || out == CUDA_R_32F);
      break;
    default:
      break;
  }
  return supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

void multiply(const Product& product, const Memory& memory) {
  if (product.operation.compute == CUBLAS_COMPUTE_64F) {
    multiply_in<double>(product, memory);
  } else {
    multiply_in<float>(product, memory);
  }
}

}  // namespace simt::cublaslt
