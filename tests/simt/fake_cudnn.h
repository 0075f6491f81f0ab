// What cuDNN's descriptors hold in the emulator, and the convolution that they describe.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

struct cudnnTensorStruct {
  static constexpr uint32_t kMagic = 0x7465736eu;
  uint32_t magic = kMagic;
  bool set = false;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;

  int64_t count() const { return int64_t{n} * c * h * w; }
  // Elements from one index to the next.
  int64_t stride_n() const { return int64_t{c} * h * w; }
  int64_t stride_c() const { return format == CUDNN_TENSOR_NHWC ? 1 : int64_t{h} * w; }
  int64_t stride_pixel() const { return format == CUDNN_TENSOR_NHWC ? c : 1; }
};
// K, C / groups, R, S.
struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  static constexpr uint32_t kMagic = 0x636f6e76u;
  uint32_t magic = kMagic;
  bool set = false;
  int padding[2] = {0, 0};
  int stride[2] = {1, 1};
  int dilation[2] = {1, 1};
  int groups = 1;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace simt::cudnn {

enum class Pass { forward, input_gradient, weight_gradient };

struct Problem {
  Pass pass;
  cudnnTensorStruct x;
  cudnnTensorStruct weight;
  cudnnTensorStruct y;
  cudnnConvolutionStruct conv;
};

struct Memory {
  void* x;
  void* weight;
  void* y;
  double alpha;
  double beta;
};

size_t size_of(cudnnDataType_t type);

// Inside a task of the stream.
void convolve(const Problem& problem, const Memory& memory);

}  // namespace simt::cudnn
