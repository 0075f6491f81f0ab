// The functions of cuDNN that the plug-in calls, for the emulator: handles, descriptors, and
// convolutions by the algorithms of fake_cudnn_algorithms.cc.
#include "tenon/tests/simt/fake_cudnn.h"

#include <cstdio>

#include "tenon/tests/simt/fake_cudnn_algorithms.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/stream_task.h"

struct cudnnContext {
  static constexpr uint32_t kMagic = 0x63746578u;
  uint32_t magic = kMagic;
  int device = 0;
  cudaStream_t stream = nullptr;
};

namespace simt::cudnn {
namespace {

template <class T>
bool usable(const T* object) {
  return object != nullptr && object->magic == T::kMagic;
}

template <class T>
cudnnStatus_t create(T** created) {
  if (created == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *created = new T;
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t destroy(T* object) {
  if (!usable(object)) return CUDNN_STATUS_BAD_PARAM;
  object->magic = 0;
  delete object;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_tensor(cudnnTensorStruct* tensor, cudnnTensorFormat_t format,
                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (!usable(tensor) || n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  const bool known = type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE ||
                     type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  if (!known) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  if (format == CUDNN_TENSOR_NCHW_VECT_C) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  tensor->format = format;
  tensor->type = type;
  tensor->n = n;
  tensor->c = c;
  tensor->h = h;
  tensor->w = w;
  tensor->set = true;
  return CUDNN_STATUS_SUCCESS;
}

// The problem, or why the arguments describe none.
cudnnStatus_t describe(Problem& problem, cudnnHandle_t handle, Pass pass,
                       const cudnnTensorStruct* x, const cudnnFilterStruct* weight,
                       const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y) {
  if (handle == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (!usable(handle) || !usable(x) || !usable(weight) || !usable(conv) || !usable(y)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (!x->set || !weight->set || !conv->set || !y->set) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (handle->device != simt::current_device()) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  problem = {pass, *x, *weight, *y, *conv};
  return CUDNN_STATUS_SUCCESS;
}

template <class Perf>
cudnnStatus_t list(const Problem& problem, int requested, int* returned, Perf* results) {
  if (requested < 1 || returned == nullptr || results == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *returned = 0;
  if (simt::shall_fail("cudnnGetConvolutionAlgorithm")) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnStatus_t status = check(problem);
  if (status == CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH) return status;
  for (const Algorithm& algorithm : algorithms(problem)) {
    if (*returned == requested) break;
    Perf& perf = results[(*returned)++];
    perf = {};
    perf.algo = static_cast<decltype(perf.algo)>(algorithm.number);
    perf.status = status != CUDNN_STATUS_SUCCESS ? status
                  : algorithm.supported          ? CUDNN_STATUS_SUCCESS
                                                 : CUDNN_STATUS_NOT_SUPPORTED;
    perf.time = static_cast<float>(*returned);
    perf.memory = algorithm.workspace;
    perf.determinism = algorithm.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    perf.mathType = CUDNN_DEFAULT_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_size(const Problem& problem, int number, size_t* bytes) {
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  Algorithm algorithm{};
  const cudnnStatus_t status = find(problem, number, algorithm);
  *bytes = algorithm.workspace;
  return status;
}

// alpha and beta are f64 for f64 and f32 otherwise.
bool read_scales(const Problem& problem, const void* alpha, const void* beta, Memory& memory) {
  if (alpha == nullptr || beta == nullptr || memory.x == nullptr || memory.weight == nullptr ||
      memory.y == nullptr) {
    return false;
  }
  auto value = [&](const void* scale) {
    return problem.x.type == CUDNN_DATA_DOUBLE
               ? *static_cast<const double*>(scale)
               : static_cast<double>(*static_cast<const float*>(scale));
  };
  memory.alpha = value(alpha);
  memory.beta = value(beta);
  return true;
}

}  // namespace
}  // namespace simt::cudnn

using simt::cudnn::Memory;
using simt::cudnn::Pass;
using simt::cudnn::Problem;

// Returns from the function unless the call succeeds.
#define SIMT_TRY(call)                                                                 \
  do {                                                                                 \
    if (const cudnnStatus_t tried = call; tried != CUDNN_STATUS_SUCCESS) return tried; \
  } while (false)

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH:
      return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      break;
  }
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM) return "CUDNN_STATUS_BAD_PARAM";
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
    return "CUDNN_STATUS_NOT_SUPPORTED";
  }
  return "CUDNN_STATUS_INTERNAL_ERROR";
}

void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "no more is known (emulated cuDNN)");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (simt::shall_fail(__func__)) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  SIMT_TRY(simt::cudnn::create(handle));
  (*handle)->device = simt::current_device();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return simt::cudnn::destroy(handle); }

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!simt::cudnn::usable(handle)) return CUDNN_STATUS_BAD_PARAM;
  if (!simt::valid_stream(stream)) return CUDNN_STATUS_BAD_PARAM;
  if (simt::device_of(stream) != handle->device) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return simt::cudnn::create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return simt::cudnn::destroy(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return simt::cudnn::set_tensor(tensor, format, type, n, c, h, w);
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return simt::cudnn::create(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return simt::cudnn::destroy(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return simt::cudnn::set_tensor(filter, format, type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) {
  return simt::cudnn::create(conv);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  return simt::cudnn::destroy(conv);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (!simt::cudnn::usable(conv) || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 ||
      dilation_h < 1 || dilation_w < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
  *conv = {};
  conv->padding[0] = pad_h;
  conv->padding[1] = pad_w;
  conv->stride[0] = stride_h;
  conv->stride[1] = stride_w;
  conv->dilation[0] = dilation_h;
  conv->dilation[1] = dilation_w;
  conv->compute = compute;
  conv->set = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  if (!simt::cudnn::usable(conv) || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  if (!simt::cudnn::usable(conv)) return CUDNN_STATUS_BAD_PARAM;
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t weight,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y, const int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::forward, x, weight, conv, y));
  return simt::cudnn::list(problem, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t weight, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::input_gradient, dx, weight, conv, dy));
  return simt::cudnn::list(problem, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dweight,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::weight_gradient, x, dweight, conv, dy));
  return simt::cudnn::list(problem, requested, returned, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t weight,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::forward, x, weight, conv, y));
  return simt::cudnn::workspace_size(problem, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t weight, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::input_gradient, dx, weight, conv, dy));
  return simt::cudnn::workspace_size(problem, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dweight,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::weight_gradient, x, dweight, conv, dy));
  return simt::cudnn::workspace_size(problem, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_desc, const void* x,
                                      const cudnnFilterDescriptor_t weight_desc, const void* weight,
                                      const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  if (simt::shall_fail(__func__)) return CUDNN_STATUS_EXECUTION_FAILED;
  Problem problem;
  SIMT_TRY(
      simt::cudnn::describe(problem, handle, Pass::forward, x_desc, weight_desc, conv, y_desc));
  Memory memory{const_cast<void*>(x), const_cast<void*>(weight), y, 1, 0};
  if (!simt::cudnn::read_scales(problem, alpha, beta, memory)) return CUDNN_STATUS_BAD_PARAM;
  return simt::cudnn::run(problem, algorithm, memory, workspace, bytes, handle->stream);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t weight_desc,
                                           const void* weight,
                                           const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           const cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (simt::shall_fail(__func__)) return CUDNN_STATUS_EXECUTION_FAILED;
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::input_gradient, dx_desc, weight_desc, conv,
                                 dy_desc));
  Memory memory{dx, const_cast<void*>(weight), const_cast<void*>(dy), 1, 0};
  if (!simt::cudnn::read_scales(problem, alpha, beta, memory)) return CUDNN_STATUS_BAD_PARAM;
  return simt::cudnn::run(problem, algorithm, memory, workspace, bytes, handle->stream);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
    const cudnnFilterDescriptor_t dweight_desc, void* dweight) {
  if (simt::shall_fail(__func__)) return CUDNN_STATUS_EXECUTION_FAILED;
  Problem problem;
  SIMT_TRY(simt::cudnn::describe(problem, handle, Pass::weight_gradient, x_desc, dweight_desc, conv,
                                 dy_desc));
  Memory memory{const_cast<void*>(x), dweight, const_cast<void*>(dy), 1, 0};
  if (!simt::cudnn::read_scales(problem, alpha, beta, memory)) return CUDNN_STATUS_BAD_PARAM;
  return simt::cudnn::run(problem, algorithm, memory, workspace, bytes, handle->stream);
}

}  // extern "C"
