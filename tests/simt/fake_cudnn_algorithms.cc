// Which algorithms the emulated cuDNN has for a convolution, and running one as a task of the
// stream. It refuses more than it must: problems that the real library has refused in one version
// or other, so that callers' ways around it are tested.
#include "tenon/tests/simt/fake_cudnn_algorithms.h"

#include <cstring>
#include <limits>
#include <utility>

#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt::cudnn {
namespace {

int64_t out_size(int64_t in, int64_t window, const cudnnConvolutionStruct& conv, int axis) {
  const int64_t reach = conv.dilation[axis] * (window - 1) + 1;
  return (in + 2 * int64_t{conv.padding[axis]} - reach) / conv.stride[axis] + 1;
}

bool shapes_fit(const Problem& p) {
  return p.x.n == p.y.n && p.x.c == p.weight.c * p.conv.groups && p.y.c == p.weight.n &&
         p.weight.n % p.conv.groups == 0 && p.y.h == out_size(p.x.h, p.weight.h, p.conv, 0) &&
         p.y.w == out_size(p.x.w, p.weight.w, p.conv, 1);
}

bool is_16_bit(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

bool dilated(const Problem& p) { return p.conv.dilation[0] > 1 || p.conv.dilation[1] > 1; }

cudnnStatus_t check_types(const Problem& p) {
  if (p.x.type != p.weight.type || p.x.type != p.y.type) {
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  }
  const bool wide = p.x.type == CUDNN_DATA_DOUBLE;
  if (p.conv.compute != (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) {
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  }
  if (p.x.format != p.weight.format || p.x.format != p.y.format) {
    return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  }
  const bool last = p.x.format == CUDNN_TENSOR_NHWC;
  if (last && (wide || (dilated(p) && p.pass != Pass::forward))) {
    return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  }
  if (is_16_bit(p.x.type) && dilated(p) && p.conv.groups > 1) {
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  }
  for (const cudnnTensorStruct* tensor : {&p.x, &p.weight, &p.y}) {
    if (tensor->count() > std::numeric_limits<int32_t>::max()) {
      return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

std::vector<Algorithm> all_algorithms(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return {{CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, 1 << 14, true},
              {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 1 << 12, true},
              {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, true}};
    case Pass::input_gradient:
      return {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, 0, false},
              {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 1 << 13, true}};
    default:
      return {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, 1 << 10, false},
              {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 1 << 13, true},
              {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, 1 << 16, true}};
  }
}

// Proposed, with a workspace, and then refused.
bool refused_late(const Problem& p, int algorithm) {
  return p.pass == Pass::forward && algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM &&
         (p.conv.padding[0] >= p.weight.h || p.conv.padding[1] >= p.weight.w);
}

}  // namespace

cudnnStatus_t check(const Problem& problem) {
  if (!shapes_fit(problem)) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  return check_types(problem);
}

std::vector<Algorithm> algorithms(const Problem& problem) {
  std::vector<Algorithm> found;
  for (Algorithm algorithm : all_algorithms(problem.pass)) {
    const bool winograd =
        problem.pass == Pass::forward && algorithm.number == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD;
    algorithm.supported = !winograd || (problem.weight.h == 3 && problem.weight.w == 3 &&
                                        problem.conv.stride[0] == 1 && problem.conv.stride[1] == 1);
    found.push_back(algorithm);
  }
  return found;
}

cudnnStatus_t find(const Problem& problem, int number, Algorithm& found) {
  if (const cudnnStatus_t status = check(problem); status != CUDNN_STATUS_SUCCESS) return status;
  for (const Algorithm& algorithm : algorithms(problem)) {
    if (algorithm.number != number || !algorithm.supported) continue;
    found = algorithm;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t run(const Problem& problem, int number, const Memory& memory, void* workspace,
                  size_t bytes, cudaStream_t stream) {
  Algorithm algorithm{};
  if (const cudnnStatus_t status = find(problem, number, algorithm);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (refused_late(problem, number)) return CUDNN_STATUS_NOT_SUPPORTED_PADDING;
  const size_t needed = algorithm.workspace;
  if (bytes < needed || (needed > 0 && workspace == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  }
  std::vector<Access> accesses;
  auto add = [&](const cudnnTensorStruct& tensor, const void* data, Pass written_by) {
    const size_t size = static_cast<size_t>(tensor.count()) * size_of(tensor.type);
    const bool write = problem.pass == written_by;
    if (!write || memory.beta != 0) accesses.push_back({data, size, false});
    if (write) accesses.push_back({data, size, true});
  };
  add(problem.x, memory.x, Pass::input_gradient);
  add(problem.weight, memory.weight, Pass::weight_gradient);
  add(problem.y, memory.y, Pass::forward);
  if (needed > 0) accesses.push_back({workspace, needed, true});
  simt::enqueue(stream, "cudnnConvolution", std::move(accesses), [=] {
    if (needed > 0) std::memset(workspace, 0xFF, needed);
    convolve(problem, memory);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace simt::cudnn
