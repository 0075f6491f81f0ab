#include "tenon/core/cuda/check.h"

#include <cstdlib>
#include <string>

#include "tenon/core/check.h"
#include "tenon/core/cuda/fault.h"

namespace tenon::cuda {
namespace {

bool blocking() {
  static const bool on = [] {
    const char* text = std::getenv("TENON_CUDA_BLOCKING");
    return text != nullptr && text[0] == '1';
  }();
  return on;
}

// What a user can do about it.
const char* advice(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ": use a smaller batch, recompute, or shard the model";
    case cudaErrorNoKernelImageForDevice:
      return ": this build has no code for the device (build with --config=all_archs)";
    case cudaErrorInsufficientDriver:
      return ": update NVIDIA's driver, or use the cpu";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return ": an op before this one may be the cause (TENON_CUDA_BLOCKING=1 names it); the "
             "device "
             "cannot be used any more in this process";
    default:
      return "";
  }
}

int current_device() {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : -1;
}

std::string text_of(cudaError_t error) {
  return str(cudaGetErrorName(error), ", ", cudaGetErrorString(error));
}

std::string text_of(dim3 extent) { return str(extent.x, "x", extent.y, "x", extent.z); }

}  // namespace

void check(cudaError_t error, const char* op, const char* call) {
  if (error == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());  // otherwise the next launch would report it once more
  fail(op, call, " failed on cuda:", current_device(), ": ", text_of(error), advice(error));
}

void check_launch(cudaError_t error, const char* op, dim3 grid, dim3 block, size_t shared_bytes,
                  cudaStream_t stream) {
  if (error != cudaSuccess) [[unlikely]] {
    static_cast<void>(cudaGetLastError());
    fail(op, "kernel launch failed on cuda:", current_device(), ": ", text_of(error), " (grid ",
         text_of(grid), ", block ", text_of(block), ", ", shared_bytes, " bytes of shared memory)",
         advice(error));
  }
  if (!blocking()) return;
  check(cudaStreamSynchronize(stream), op, "the kernel");
  throw_fault({DeviceType::cuda, current_device()});
}

}  // namespace tenon::cuda
