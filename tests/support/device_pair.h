// A tensor on the CPU and its twin on a CUDA device, for tests that compare the two.
#pragma once

#include "tenon/core/factory.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon::testing {

inline const Device kCuda{DeviceType::cuda, 0};

struct DevicePair {
  DevicePair(const Tensor& on_cpu, const Tensor& on_cuda) : cpu(on_cpu), cuda(on_cuda) {}
  // Values in [-1, 1), rounded to `dtype`.
  DevicePair(const Shape& shape, DType dtype, unsigned seed)
      : cpu(random_tensor(shape, dtype, seed, kCpu)), cuda(copied_to(cpu, kCuda)) {}
  // Both seen with other strides.
  DevicePair view(const Shape& shape, const Strides& strides, int64_t offset = 0) const {
    return {cpu.as_strided(shape, strides, offset), cuda.as_strided(shape, strides, offset)};
  }

  Tensor cpu, cuda;
};

}  // namespace tenon::testing
