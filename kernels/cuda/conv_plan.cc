#include "tenon/kernels/cuda/conv_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tenon/core/check.h"
#include "tenon/core/cuda/context.h"

namespace tenon::kernels::cuda {
namespace {

// Algorithms that ask for more come last.
constexpr size_t kWorkspace = size_t{256} << 20;

bool unsupported(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// Algorithms that only multiply and add. Transforms (Winograd, FFT) round once more, by up to a
// hundred times what a sum of products loses.
bool is_plain(cudnnConvolutionFwdAlgo_t number) {
  return number <= CUDNN_CONVOLUTION_FWD_ALGO_DIRECT;
}
bool is_plain(cudnnConvolutionBwdDataAlgo_t number) {
  return number <= CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
}
bool is_plain(cudnnConvolutionBwdFilterAlgo_t number) {
  return number <= CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 ||
         number == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
}

template <class Set>
cudnnStatus_t with_sizes(const std::array<int64_t, 4>& sizes, const Set& set) {
  return set(static_cast<int>(sizes[0]), static_cast<int>(sizes[1]), static_cast<int>(sizes[2]),
             static_cast<int>(sizes[3]));
}

}  // namespace

void ConvPlan::check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  std::array<char, 512> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  fail(op_of(convolution_.pass), call, " failed on ", device_, ": ", cudnnGetErrorString(status),
       ", ", detail.data(), " (", describe(convolution_), ")");
}

ConvPlan::ConvPlan(cudnnHandle_t handle, Device device, const Convolution& convolution)
    : device_(device), convolution_(convolution) {
  cudnnTensorDescriptor_t x = nullptr;
  check(cudnnCreateTensorDescriptor(&x), "cudnnCreateTensorDescriptor");
  x_.reset(x);
  cudnnTensorDescriptor_t y = nullptr;
  check(cudnnCreateTensorDescriptor(&y), "cudnnCreateTensorDescriptor");
  y_.reset(y);
  cudnnFilterDescriptor_t weight = nullptr;
  check(cudnnCreateFilterDescriptor(&weight), "cudnnCreateFilterDescriptor");
  weight_.reset(weight);
  cudnnConvolutionDescriptor_t conv = nullptr;
  check(cudnnCreateConvolutionDescriptor(&conv), "cudnnCreateConvolutionDescriptor");
  conv_.reset(conv);
  if (describe_all()) ask(handle);
}

// Without TF32 only FMA is exact: the library's default takes tensor cores for f32.
cudnnMathType_t ConvPlan::wanted_math() const {
  switch (convolution_.dtype) {
    case DType::f64:
      return CUDNN_DEFAULT_MATH;
    case DType::f32:
      return convolution_.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    default:
      return CUDNN_TENSOR_OP_MATH;
  }
}

// False when the library does not know such tensors at all.
bool ConvPlan::describe_all() {
  const Convolution& c = convolution_;
  const cudnnDataType_t type = type_of(c.dtype);
  const cudnnTensorFormat_t format = c.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  auto pair = [](const std::array<int64_t, 2>& values) {
    return std::array<int, 2>{static_cast<int>(values[0]), static_cast<int>(values[1])};
  };
  const auto padding = pair(c.padding), stride = pair(c.stride), dilation = pair(c.dilation);
  const std::array<std::pair<const char*, cudnnStatus_t>, 6> steps{{
      {"cudnnSetTensor4dDescriptor", with_sizes(c.x,
                                                [&](auto... size) {
                                                  return cudnnSetTensor4dDescriptor(
                                                      x_.get(), format, type, size...);
                                                })},
      {"cudnnSetTensor4dDescriptor", with_sizes(c.y,
                                                [&](auto... size) {
                                                  return cudnnSetTensor4dDescriptor(
                                                      y_.get(), format, type, size...);
                                                })},
      {"cudnnSetFilter4dDescriptor", with_sizes(c.weight,
                                                [&](auto... size) {
                                                  return cudnnSetFilter4dDescriptor(
                                                      weight_.get(), type, format, size...);
                                                })},
      {"cudnnSetConvolution2dDescriptor",
       cudnnSetConvolution2dDescriptor(conv_.get(), padding[0], padding[1], stride[0], stride[1],
                                       dilation[0], dilation[1], CUDNN_CROSS_CORRELATION,
                                       type_of(compute_dtype(c.dtype)))},
      {"cudnnSetConvolutionGroupCount",
       cudnnSetConvolutionGroupCount(conv_.get(), static_cast<int>(c.groups))},
      {"cudnnSetConvolutionMathType", cudnnSetConvolutionMathType(conv_.get(), wanted_math())},
  }};
  for (const auto& [call, status] : steps) {
    if (unsupported(status)) return false;
    check(status, call);
  }
  return true;
}

template <class Perf>
void ConvPlan::keep(cudnnStatus_t status, const Perf* found, int count) {
  if (unsupported(status)) return;
  check(status, "cudnnGetConvolution...Algorithm_v7");
  const bool exact = convolution_.dtype == DType::f32 && !convolution_.tf32;
  for (int i = 0; i < count; ++i) {
    const Perf& perf = found[i];
    if (perf.status != CUDNN_STATUS_SUCCESS || !is_plain(perf.algo)) continue;
    if (tenon::cuda::deterministic() && perf.determinism != CUDNN_DETERMINISTIC) continue;
    algorithms_.push_back(
        {static_cast<int>(perf.algo), exact ? wanted_math() : perf.mathType, perf.memory});
  }
}

void ConvPlan::ask(cudnnHandle_t handle) {
  constexpr int kMost = 16;
  int count = 0;
  if (convolution_.pass == ConvPass::forward) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMost> found{};
    const cudnnStatus_t status = cudnnGetConvolutionForwardAlgorithm_v7(
        handle, x_.get(), weight_.get(), conv_.get(), y_.get(), kMost, &count, found.data());
    keep(status, found.data(), count);
  } else if (convolution_.pass == ConvPass::input_gradient) {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMost> found{};
    const cudnnStatus_t status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
        handle, weight_.get(), y_.get(), conv_.get(), x_.get(), kMost, &count, found.data());
    keep(status, found.data(), count);
  } else {
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMost> found{};
    const cudnnStatus_t status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, x_.get(), y_.get(), conv_.get(), weight_.get(), kMost, &count, found.data());
    keep(status, found.data(), count);
  }
  std::erase_if(algorithms_, [&](Algorithm& algorithm) {
    return ask_workspace(handle, algorithm) != CUDNN_STATUS_SUCCESS;
  });
  std::stable_partition(algorithms_.begin(), algorithms_.end(), [](const Algorithm& algorithm) {
    return algorithm.workspace <= kWorkspace;
  });
}

cudnnStatus_t ConvPlan::ask_workspace(cudnnHandle_t handle, Algorithm& algorithm) const {
  const cudnnStatus_t set = cudnnSetConvolutionMathType(conv_.get(), algorithm.math);
  if (set != CUDNN_STATUS_SUCCESS) return set;
  switch (convolution_.pass) {
    case ConvPass::forward:
      return cudnnGetConvolutionForwardWorkspaceSize(
          handle, x_.get(), weight_.get(), conv_.get(), y_.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), &algorithm.workspace);
    case ConvPass::input_gradient:
      return cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle, weight_.get(), y_.get(), conv_.get(), x_.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), &algorithm.workspace);
    default:
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(
          handle, x_.get(), y_.get(), conv_.get(), weight_.get(),
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), &algorithm.workspace);
  }
}

cudnnStatus_t ConvPlan::call(cudnnHandle_t handle, const Algorithm& algorithm,
                             const ConvMemory& memory, cudaStream_t stream) const {
  static constexpr float kFloats[] = {0, 1};
  static constexpr double kDoubles[] = {0, 1};
  const bool wide = convolution_.dtype == DType::f64;
  auto scale = [wide](int number) -> const void* {
    return wide ? static_cast<const void*>(&kDoubles[number]) : &kFloats[number];
  };
  const void* const one = scale(1);
  const void* const old = scale(memory.accumulate ? 1 : 0);
  const size_t bytes = algorithm.workspace;
  void* const buffer = bytes == 0 ? nullptr : tenon::cuda::workspace(device_, stream, bytes);
  check(cudnnSetConvolutionMathType(conv_.get(), algorithm.math), "cudnnSetConvolutionMathType");
  switch (convolution_.pass) {
    case ConvPass::forward:
      return cudnnConvolutionForward(handle, one, x_.get(), memory.x, weight_.get(), memory.weight,
                                     conv_.get(),
                                     static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number),
                                     buffer, bytes, old, y_.get(), memory.y);
    case ConvPass::input_gradient:
      return cudnnConvolutionBackwardData(
          handle, one, weight_.get(), memory.weight, y_.get(), memory.y, conv_.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), buffer, bytes, old,
          x_.get(), memory.x);
    default:
      return cudnnConvolutionBackwardFilter(
          handle, one, x_.get(), memory.x, y_.get(), memory.y, conv_.get(),
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), buffer, bytes, old,
          weight_.get(), memory.weight);
  }
}

bool ConvPlan::run(cudnnHandle_t handle, const ConvMemory& memory, cudaStream_t stream) {
  while (!algorithms_.empty()) {
    const cudnnStatus_t status = call(handle, algorithms_.front(), memory, stream);
    if (!unsupported(status)) {
      constexpr const char* kCalls[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                        "cudnnConvolutionBackwardFilter"};
      check(status, kCalls[static_cast<int>(convolution_.pass)]);
      return true;
    }
    algorithms_.erase(algorithms_.begin());
  }
  return false;
}

}  // namespace tenon::kernels::cuda
