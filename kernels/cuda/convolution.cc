#include "tenon/kernels/cuda/convolution.h"

#include <cudnn.h>

#include <map>

#include "tenon/core/check.h"
#include "tenon/core/cuda/context.h"
#include "tenon/core/cuda/libraries.h"
#include "tenon/core/shape.h"
#include "tenon/kernels/cuda/conv_plan.h"
#include "tenon/kernels/cuda/library_pool.h"

namespace tenon::kernels::cuda {
namespace {

void check(cudnnStatus_t status, const char* call, Device device) {
  TENON_CHECK(status == CUDNN_STATUS_SUCCESS, "conv2d", call, " failed on ", device, ": ",
              cudnnGetErrorString(status));
}

struct Context {
  explicit Context(Device where) : device(where) {
    check(cudnnCreate(&handle), "cudnnCreate", device);
  }
  void use(cudaStream_t wanted) {
    if (wanted == stream) return;
    check(cudnnSetStream(handle, wanted), "cudnnSetStream", device);
    stream = wanted;
  }
  ConvPlan& plan(const Convolution& convolution) {
    const auto found = plans.find(convolution);
    if (found != plans.end()) return found->second;
    return plans.try_emplace(convolution, handle, device, convolution).first->second;
  }

  const Device device;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  std::map<Convolution, ConvPlan> plans;
};

LibraryPool<Context>& pool() {
  static auto* const contexts = new LibraryPool<Context>();
  return *contexts;
}

std::string version() {
  const size_t number = cudnnGetVersion();
  return str(number / 10000, ".", number / 100 % 100, ".", number % 100);
}
[[maybe_unused]] const bool named = tenon::cuda::add_library("cuDNN", version);

Shape shape_of(const std::array<int64_t, 4>& sizes) {
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

}  // namespace

bool has_algorithm(Device device, const Convolution& convolution) {
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  const auto context = pool().take(device);
  context->use(stream);
  return context->plan(convolution).has_algorithm();
}

bool convolve(Device device, const Convolution& convolution, const ConvMemory& memory) {
  const cudaStream_t stream = tenon::cuda::stream_of(device);
  const auto context = pool().take(device);
  context->use(stream);
  return context->plan(convolution).run(context->handle, memory, stream);
}

std::string describe(const Convolution& c) {
  return str("x ", shape_of(c.x), ", weight ", shape_of(c.weight), ", y ", shape_of(c.y), " in ",
             c.dtype, c.channels_last ? ", channels-last" : ", row-major", ", stride (",
             c.stride[0], ", ", c.stride[1], "), padding (", c.padding[0], ", ", c.padding[1],
             "), dilation (", c.dilation[0], ", ", c.dilation[1], "), groups ", c.groups,
             c.tf32 ? ", TF32" : "");
}

const char* op_of(ConvPass pass) {
  constexpr const char* kOps[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"};
  return kOps[static_cast<int>(pass)];
}

}  // namespace tenon::kernels::cuda
