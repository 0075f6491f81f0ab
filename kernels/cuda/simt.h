// The only three things in a kernel file that may not be plain CUDA, so that the same file is
// compiled by nvcc for a GPU and by g++ for the emulator (tests/simt), which runs it on the CPU:
//
//   SIMT_SHARED(float, tile, [32][33]);     // __shared__ float tile[32][33];
//   SIMT_DYNAMIC_SHARED(float, buffer);     // float* buffer: the bytes given at launch
//   simt::launch("softmax", kernel<float>, grid, block, shared_bytes, stream, arguments…);
//
// A launch names its op for errors; an empty grid launches nothing. No <<<>>>, no inline PTX and
// no #ifdef __CUDA_ARCH__ in kernel files: what hides code from the emulator is not tested.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "tenon/core/cuda/fault.h"

#if !defined(__CUDACC__)

#include "tenon/tests/simt/device.h"

#else

#include "tenon/core/cuda/check.h"

#define SIMT_SHARED(type, name, extent) __shared__ type name extent
#define SIMT_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char simt_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(simt_dynamic_shared)

namespace simt {

// Static shared memory needs no permission; more dynamic memory than this does.
inline constexpr size_t kDefaultDynamicShared = 48 << 10;

template <class... Parameters, class... Arguments>
void launch(const char* op, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (shared_bytes > kDefaultDynamicShared) {
    tenon::cuda::check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                            cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(shared_bytes)),
                       op, "cudaFuncSetAttribute");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  tenon::cuda::check_launch(error, op, grid, block, shared_bytes, stream);
}

}  // namespace simt

#endif

namespace tenon::cuda {

__device__ inline void FaultSink::raise(int64_t value, int64_t position, int64_t limit) const {
  if (atomicCAS(&record->raised, 0u, 1u) != 0u) return;
  record->text = text;
  record->value = value;
  record->position = position;
  record->limit = limit;
  __threadfence_system();
}

}  // namespace tenon::cuda
