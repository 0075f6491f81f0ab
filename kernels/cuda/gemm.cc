#include "tenon/kernels/cuda/gemm.h"

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/core/cuda/libraries.h"
#include "tenon/kernels/cuda/library_pool.h"
#include "tenon/kernels/cuda/precision.h"

namespace tenon::kernels::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr int kCandidates = 4;

void check(cublasStatus_t status, const char* call, Device device, const GemmShape& shape) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail("matmul", call, " failed on ", device, ": ", cublasLtGetStatusName(status), ", ",
       cublasLtGetStatusString(status), " (", describe(shape), ")");
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  const bool fast = dtype == DType::f32 && tf32_allowed();
  return fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(Destroy(object));
  }
};
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Deleter<&cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Deleter<&cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Deleter<&cublasLtMatmulPreferenceDestroy>>;

// The library's descriptions of a product, and the algorithms it proposed. The library counts
// columns first: a row-major matrix is its transpose, so out^T = b^T a^T is what it is asked for.
class Plan {
 public:
  Plan(cublasLtHandle_t handle, Device device, const GemmShape& shape, const void* bias)
      : device_(device), shape_(shape) {
    describe_operation(bias);
    first_ = describe_matrix(shape.b, shape.k, shape.n, shape.dtype);
    second_ = describe_matrix(shape.a, shape.m, shape.k, shape.dtype);
    result_ = describe_matrix(shape.out, shape.m, shape.n, shape.result);
    ask(handle);
  }

  // False when no algorithm is left.
  bool run(cublasLtHandle_t handle, const GemmMemory& memory, cudaStream_t stream) {
    if (shape_.bias) set_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
    while (!algorithms_.empty()) {
      const cublasStatus_t status = call(handle, algorithms_.front(), memory, stream);
      if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
        check(status, "cublasLtMatmul", device_, shape_);
        return true;
      }
      algorithms_.erase(algorithms_.begin());
    }
    return false;
  }

 private:
  template <class T>
  void set_operation(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute", device_, shape_);
  }

  void describe_operation(const void* bias) {
    cublasLtMatmulDesc_t operation = nullptr;
    const cudaDataType_t scale = shape_.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
    check(cublasLtMatmulDescCreate(&operation, compute_type(shape_.dtype), scale),
          "cublasLtMatmulDescCreate", device_, shape_);
    operation_.reset(operation);
    auto transform = [](const GemmOperand& operand) {
      return static_cast<int32_t>(operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    };
    set_operation(CUBLASLT_MATMUL_DESC_TRANSA, transform(shape_.b));
    set_operation(CUBLASLT_MATMUL_DESC_TRANSB, transform(shape_.a));
    if (!shape_.bias) return;
    set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS));
    set_operation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }

  Layout describe_matrix(const GemmOperand& operand, int64_t rows, int64_t columns, DType dtype) {
    if (!operand.transposed) std::swap(rows, columns);
    cublasLtMatrixLayout_t created = nullptr;
    check(cublasLtMatrixLayoutCreate(&created, type_of(dtype), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(columns), operand.leading),
          "cublasLtMatrixLayoutCreate", device_, shape_);
    Layout layout(created);
    auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      check(cublasLtMatrixLayoutSetAttribute(created, attribute, &value, sizeof(value)),
            "cublasLtMatrixLayoutSetAttribute", device_, shape_);
    };
    if (shape_.batch > 1) {
      set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(shape_.batch));
      set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, operand.batch_stride);
    }
    return layout;
  }

  Preference preference() {
    cublasLtMatmulPreference_t created = nullptr;
    check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate", device_,
          shape_);
    Preference owner(created);
    auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute", device_, shape_);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspace));
    // The other schemes add partial sums in the dtype of the result.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape_.b.alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape_.a.alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape_.addend_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape_.out.alignment);
    return owner;
  }

  void ask(cublasLtHandle_t handle) {
    const Preference wanted = preference();
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
        wanted.get(), kCandidates, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
    check(status, "cublasLtMatmulAlgoGetHeuristic", device_, shape_);
    for (int i = 0; i < count; ++i) {
      const auto& result = found[static_cast<size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms_.push_back(result);
    }
  }

  cublasStatus_t call(cublasLtHandle_t handle, const cublasLtMatmulHeuristicResult_t& algorithm,
                      const GemmMemory& memory, cudaStream_t stream) const {
    static constexpr float kFloats[] = {0, 1};
    static constexpr double kDoubles[] = {0, 1};
    auto scale = [&](int number) -> const void* {
      if (shape_.dtype == DType::f64) return &kDoubles[number];
      return &kFloats[number];
    };
    void* const buffer = algorithm.workspaceSize == 0
                             ? nullptr
                             : tenon::cuda::workspace(device_, stream, kWorkspace);
    const bool adds = memory.addend != nullptr;
    return cublasLtMatmul(handle, operation_.get(), scale(1), memory.b, first_.get(), memory.a,
                          second_.get(), scale(adds ? 1 : 0), adds ? memory.addend : memory.out,
                          result_.get(), memory.out, result_.get(), &algorithm.algo, buffer,
                          algorithm.workspaceSize, stream);
  }

  const Device device_;
  const GemmShape shape_;
  Operation operation_;
  Layout first_, second_, result_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;  // the best first
};

struct Context {
  explicit Context(Device device) {
    const cublasStatus_t status = cublasLtCreate(&handle);
    TENON_CHECK(status == CUBLAS_STATUS_SUCCESS, "matmul", "cublasLtCreate failed on ", device,
                ": ", cublasLtGetStatusName(status), ", ", cublasLtGetStatusString(status));
  }

  cublasLtHandle_t handle = nullptr;
  std::map<GemmShape, Plan> plans;
};

LibraryPool<Context>& pool() {
  static auto* const contexts = new LibraryPool<Context>();
  return *contexts;
}

std::string version() {
  const size_t number = cublasLtGetVersion();
  return str(number / 10000, ".", number / 100 % 100, ".", number % 100);
}
[[maybe_unused]] const bool named = tenon::cuda::add_library("cuBLASLt", version);

}  // namespace

bool gemm(Device device, const GemmShape& shape, const GemmMemory& memory) {
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  const auto context = pool().take(device);
  auto found = context->plans.find(shape);
  if (found == context->plans.end()) {
    found =
        context->plans
            .try_emplace(shape, context->handle, device, shape, shape.bias ? memory.bias : nullptr)
            .first;
  }
  if (found->second.run(context->handle, memory, stream)) return true;
  TENON_CHECK(shape.bias, "matmul", "cuBLASLt has no algorithm on ", device, " for ",
              describe(shape));
  return false;
}

std::string describe(const GemmShape& shape) {
  auto matrix = [](const GemmOperand& operand, int64_t rows, int64_t columns) {
    return str("(", rows, ", ", columns, ")", operand.transposed ? "^T" : "", " stride ",
               operand.leading);
  };
  return str("a ", matrix(shape.a, shape.m, shape.k), ", b ", matrix(shape.b, shape.k, shape.n),
             " in ", shape.dtype, ", out ", matrix(shape.out, shape.m, shape.n), " in ",
             shape.result, shape.bias ? ", bias" : "", ", batch ", shape.batch, ", aligned to ",
             shape.a.alignment, ", ", shape.b.alignment, ", ", shape.out.alignment, " bytes");
}

}  // namespace tenon::kernels::cuda
