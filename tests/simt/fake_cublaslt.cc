// The functions of cuBLASLt that the plug-in calls, for the emulator: descriptors, a heuristic that
// proposes two algorithms, and products as tasks of their stream. An algorithm is good only for
// what it was proposed for, as far as addresses are less aligned than was said, or other problems.
#include "tenon/tests/simt/fake_cublaslt.h"

#include <cstring>
#include <vector>

#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/stream_task.h"

struct cublasLtContext {
  uint64_t magic = kMagic;
  static constexpr uint64_t kMagic = 0x6c74636f6e746578;
};

namespace simt::cublaslt {
namespace {

constexpr size_t kWorkspace = 4096;

// The parts of cublasLtMatmulAlgo_t.
enum { kProblem, kAlignment, kNeeded, kIsSet };

template <class T, class Handle>
T& object(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

template <class T>
cublasStatus_t assign(T& field, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool usable(cublasLtHandle_t handle) {
  return handle != nullptr && handle->magic == cublasLtContext::kMagic;
}

uint64_t identity(const Product& product) {
  uint64_t sum = 1469598103934665603u;
  auto add = [&sum](auto... values) {
    ((sum = (sum ^ static_cast<uint64_t>(values)) * 1099511628211u), ...);
  };
  const Operation& op = product.operation;
  add(op.compute, op.scale, op.transpose_a, op.transpose_b, op.epilogue);
  for (const Layout* layout : {&product.a, &product.b, &product.c, &product.d}) {
    add(layout->type, layout->rows, layout->columns, layout->leading, layout->batch,
        layout->batch_stride);
  }
  return sum;
}

uint64_t pack(const uint32_t (&alignment)[4]) {
  uint64_t packed = 0;
  for (const uint32_t bytes : alignment) packed = packed << 16 | bytes;
  return packed;
}

bool aligned(uint64_t packed, const Memory& memory) {
  const void* const addresses[] = {memory.d, memory.c, memory.b, memory.a};
  for (const void* address : addresses) {
    if (reinterpret_cast<uintptr_t>(address) % (packed & 0xffffu) != 0) return false;
    packed >>= 16;
  }
  return true;
}

cublasStatus_t check_algorithm(const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                               const Memory& memory, const void* workspace, size_t bytes) {
  if (algorithm.data[kIsSet] == 0 || algorithm.data[kProblem] != identity(product)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!aligned(algorithm.data[kAlignment], memory)) return CUBLAS_STATUS_INVALID_VALUE;
  const size_t needed = algorithm.data[kNeeded];
  const bool enough = bytes >= needed && reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
  if (needed > 0 && (workspace == nullptr || !enough)) return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

void add_matrices(std::vector<Access>& accesses, const Layout& layout, const void* data,
                  bool write) {
  const size_t element = size_of(layout.type);
  const int batch = layout.batch_stride == 0 ? 1 : layout.batch;
  for (int64_t number = 0; number < batch; ++number) {
    const auto* const first = static_cast<const char*>(data) +
                              number * layout.batch_stride * static_cast<int64_t>(element);
    accesses.push_back({first, layout.rows * element, write, layout.columns,
                        static_cast<size_t>(layout.leading) * element});
  }
}

double scalar(const Product& product, const void* value) {
  return product.operation.scale == CUDA_R_64F
             ? *static_cast<const double*>(value)
             : static_cast<double>(*static_cast<const float*>(value));
}

void enqueue_product(const Product& product, const Memory& memory, void* workspace, size_t bytes,
                     cudaStream_t stream) {
  std::vector<Access> accesses;
  add_matrices(accesses, product.a, memory.a, false);
  add_matrices(accesses, product.b, memory.b, false);
  if (memory.beta != 0) add_matrices(accesses, product.c, memory.c, false);
  if (product.adds_bias()) {
    const size_t length = product.d.rows * size_of(product.d.type);
    accesses.push_back({product.operation.bias, length, false});
  }
  add_matrices(accesses, product.d, memory.d, true);
  if (bytes > 0) accesses.push_back({workspace, bytes, true});
  simt::enqueue(stream, "cublasLtMatmul", std::move(accesses), [=] {
    if (bytes > 0) std::memset(workspace, 0xFF, bytes);
    multiply(product, memory);
  });
}

}  // namespace
}  // namespace simt::cublaslt

using namespace simt::cublaslt;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (simt::shall_fail(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (!usable(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->magic = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "an internal operation failed";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* created, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (created == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto* const operation = new Operation;
  operation->compute = compute;
  operation->scale = scale;
  *created = reinterpret_cast<cublasLtMatmulDesc_t>(operation);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<Operation*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& operation = object<Operation>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(operation.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(operation.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(operation.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(operation.bias, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* created, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  if (created == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *created =
      reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading, 1, 0});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t descriptor,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& layout = object<Layout>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return assign(layout.batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return assign(layout.batch_stride, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* created) {
  if (created == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *created = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t descriptor,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto& preference = object<Preference>(descriptor);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return assign(preference.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return assign(preference.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return assign(preference.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(preference.alignment[3], value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (simt::shall_fail(__func__)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!usable(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (operation == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      wanted == nullptr || requested < 1 || results == nullptr || returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Product product{object<Operation>(operation), object<Layout>(a), object<Layout>(b),
                        object<Layout>(c), object<Layout>(d)};
  *returned = 0;
  if (const cublasStatus_t status = check(product); status != CUBLAS_STATUS_SUCCESS) return status;
  const auto& preference = object<Preference>(wanted);
  for (const size_t needed : {kWorkspace, size_t{0}}) {
    if (needed > preference.workspace || *returned == requested) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    result.algo.data[kProblem] = identity(product);
    result.algo.data[kAlignment] = pack(preference.alignment);
    result.algo.data[kNeeded] = needed;
    result.algo.data[kIsSet] = 1;
    result.workspaceSize = needed;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  if (simt::shall_fail(__func__)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!usable(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const void* given :
       {static_cast<const void*>(operation), alpha, a, static_cast<const void*>(a_layout), b,
        static_cast<const void*>(b_layout), beta, c, static_cast<const void*>(c_layout),
        static_cast<const void*>(d), static_cast<const void*>(d_layout)}) {
    if (given == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Product product{object<Operation>(operation), object<Layout>(a_layout),
                        object<Layout>(b_layout), object<Layout>(c_layout),
                        object<Layout>(d_layout)};
  if (const cublasStatus_t status = check(product); status != CUBLAS_STATUS_SUCCESS) return status;
  if (product.adds_bias() && product.operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Memory memory{a, b, c, d, scalar(product, alpha), scalar(product, beta)};
  size_t needed = 0;
  if (algorithm != nullptr) {
    const cublasStatus_t status = check_algorithm(product, *algorithm, memory, workspace, bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    needed = algorithm->data[kNeeded];
  }
  enqueue_product(product, memory, workspace, needed, stream);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
