// Fake CUDA runtime: devices, their properties, errors.
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "tenon/tests/simt/device_heap.h"
#include "tenon/tests/simt/fake_runtime.h"
#include "tenon/tests/simt/settings.h"
#include "tenon/tests/simt/shared_arena.h"
#include "tenon/tests/simt/streams.h"

namespace simt {
namespace {

__thread cudaError_t last_error __attribute__((tls_model("initial-exec"))) = cudaSuccess;

constexpr int kMultiprocessors = 4;  // few, so that grids are capped in tests as well
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

bool is_device(int device) { return device >= 0 && device < settings().devices; }

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define SIMT_ERROR(name, text) \
  ErrorText { name, #name, text }
constexpr ErrorText kErrors[] = {
    SIMT_ERROR(cudaSuccess, "no error"),
    SIMT_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SIMT_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SIMT_ERROR(cudaErrorInitializationError, "initialization error"),
    SIMT_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SIMT_ERROR(cudaErrorInsufficientDriver,
               "CUDA driver version is insufficient for CUDA runtime version"),
    SIMT_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SIMT_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SIMT_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SIMT_ERROR(cudaErrorNotReady, "device not ready"),
    SIMT_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SIMT_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SIMT_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SIMT_ERROR(cudaErrorPeerAccessUnsupported,
               "peer access is not supported between these two "
               "devices"),
    SIMT_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SIMT_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SIMT_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef SIMT_ERROR

const ErrorText& text_of(cudaError_t error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return entry;
  }
  return kErrors[std::size(kErrors) - 1];
}

// Pairs of (device, peer).
struct Peers {
  std::mutex mutex;
  std::set<std::pair<int, int>> enabled;
};
Peers& peers() {
  static Peers& instance = *new Peers;
  return instance;
}

}  // namespace

bool enable_peer(int device, int peer) {
  const std::lock_guard lock(peers().mutex);
  return peers().enabled.emplace(device, peer).second;
}

bool may_access(int device, int owner) {
  const std::lock_guard lock(peers().mutex);
  return device == owner || peers().enabled.count({device, owner}) != 0;
}

cudaError_t failed(cudaError_t error) {
  last_error = error;
  return error;
}

}  // namespace simt

using simt::failed;

cudaError_t cudaGetLastError() { return std::exchange(simt::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return simt::last_error; }
const char* cudaGetErrorName(cudaError_t error) { return simt::text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return simt::text_of(error).text; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (simt::driver_is("none") || simt::settings().devices <= 0) return failed(cudaErrorNoDevice);
  if (simt::driver_is("old")) return failed(cudaErrorInsufficientDriver);
  SIMT_MAY_FAIL(cudaErrorInitializationError);
  *count = simt::settings().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!simt::is_device(device)) return failed(cudaErrorInvalidDevice);
  SIMT_MAY_FAIL(cudaErrorInitializationError);
  simt::set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  SIMT_MAY_FAIL(cudaErrorInitializationError);
  *device = simt::current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!simt::is_device(device)) return failed(cudaErrorInvalidDevice);
  SIMT_MAY_FAIL(cudaErrorInvalidDevice);
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "emulated device");
  p.uuid.bytes[15] = static_cast<char>(device);
  p.totalGlobalMem = simt::settings().memory;
  p.sharedMemPerBlock = simt::SharedArena::kStaticLimit;
  p.sharedMemPerBlockOptin = simt::SharedArena::kLimit;
  p.sharedMemPerMultiprocessor = simt::SharedArena::kLimit + 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = simt::kMultiprocessors;
  p.l2CacheSize = 50 << 20;
  p.memoryBusWidth = 5120;
  p.canMapHostMemory = p.unifiedAddressing = p.concurrentKernels = 1;
  p.streamPrioritiesSupported = p.cooperativeLaunch = 1;
  p.asyncEngineCount = 3;
  p.pciBusID = device + 1;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p{};
  const cudaError_t error = cudaGetDeviceProperties(&p, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    default:
      return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = simt::driver_is("none") ? 0 : simt::driver_is("old") ? 9000 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  *free_bytes = simt::free_bytes(simt::current_device());
  *total_bytes = simt::settings().memory;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  SIMT_MAY_FAIL(cudaErrorInvalidValue);
  const bool too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                        value > static_cast<int>(simt::SharedArena::kLimit);
  return function == nullptr || too_much ? failed(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = simt::kLeastPriority;
  if (greatest != nullptr) *greatest = simt::kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!simt::is_device(device) || !simt::is_device(peer)) return failed(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  SIMT_MAY_FAIL(cudaErrorPeerAccessUnsupported);
  if (!simt::is_device(peer) || peer == simt::current_device()) {
    return failed(cudaErrorInvalidDevice);
  }
  if (flags != 0) return failed(cudaErrorInvalidValue);
  return simt::enable_peer(simt::current_device(), peer)
             ? cudaSuccess
             : failed(cudaErrorPeerAccessAlreadyEnabled);
}
