// cuDNN's descriptions of a convolution and the algorithms it may be computed with.
#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>
#include <vector>

#include "tenon/kernels/cuda/convolution.h"

namespace tenon::kernels::cuda {

template <auto Destroy>
struct CudnnDeleter {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(Destroy(object));
  }
};

class ConvPlan {
 public:
  ConvPlan(cudnnHandle_t handle, Device device, const Convolution& convolution);

  bool has_algorithm() const { return !algorithms_.empty(); }
  // False when no algorithm is left.
  bool run(cudnnHandle_t handle, const ConvMemory& memory, cudaStream_t stream);

 private:
  // Numbers are those of the pass's own enumeration.
  struct Algorithm {
    int number;
    cudnnMathType_t math;
    size_t workspace;
  };

  void check(cudnnStatus_t status, const char* call) const;
  bool describe_all();
  cudnnMathType_t wanted_math() const;
  template <class Perf>
  void keep(cudnnStatus_t status, const Perf* found, int count);
  void ask(cudnnHandle_t handle);
  cudnnStatus_t ask_workspace(cudnnHandle_t handle, Algorithm& algorithm) const;
  cudnnStatus_t call(cudnnHandle_t handle, const Algorithm& algorithm, const ConvMemory& memory,
                     cudaStream_t stream) const;

  using TensorDescriptor =
      std::unique_ptr<cudnnTensorStruct, CudnnDeleter<&cudnnDestroyTensorDescriptor>>;
  using FilterDescriptor =
      std::unique_ptr<cudnnFilterStruct, CudnnDeleter<&cudnnDestroyFilterDescriptor>>;
  using ConvDescriptor =
      std::unique_ptr<cudnnConvolutionStruct, CudnnDeleter<&cudnnDestroyConvolutionDescriptor>>;

  const Device device_;
  const Convolution convolution_;
  TensorDescriptor x_;
  TensorDescriptor y_;
  FilterDescriptor weight_;
  ConvDescriptor conv_;
  std::vector<Algorithm> algorithms_;  // the best first
};

}  // namespace tenon::kernels::cuda
