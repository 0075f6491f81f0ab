// A kernel launch: what CUDA would refuse, then a task on the stream.
#include "tenon/tests/simt/fake_runtime.h"
#include "tenon/tests/simt/kernel.h"
#include "tenon/tests/simt/machine.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/streams.h"

namespace simt {
namespace {

constexpr size_t kParameterLimit = 32764;

cudaError_t check_configuration(dim3 grid, dim3 block, size_t shared_bytes) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > Machine::kMaxThreads || block.x > 1024 || block.y > 1024 ||
      block.z > 64 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  return shared_bytes > SharedArena::kLimit ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

cudaError_t enqueue_kernel(const char* op, dim3 grid, dim3 block, size_t shared_bytes,
                           cudaStream_t handle, std::shared_ptr<const KernelCall> call) {
  if (shall_fail("launch")) return failed(cudaErrorLaunchOutOfResources);
  const cudaError_t error = check_configuration(grid, block, shared_bytes);
  if (error != cudaSuccess) return failed(error);
  if (call->parameter_bytes > kParameterLimit) return failed(cudaErrorInvalidValue);
  CUstream_st* stream = resolve(handle);
  if (stream == nullptr || stream->device != current_device()) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  enqueue(handle, op, {}, [launch = KernelLaunch{op, grid, block, shared_bytes, std::move(call)}] {
    Machine::execute(launch);
  });
  return cudaSuccess;
}

}  // namespace simt
