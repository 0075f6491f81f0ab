// Convolutions by cuDNN: one call of the library on dense tensors of one dtype and one layout. The
// rest of the program does not see the library.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "tenon/core/device.h"
#include "tenon/core/dtype.h"

namespace tenon::kernels::cuda {

enum class ConvPass : uint8_t { forward, input_gradient, weight_gradient };

// y = x * weight and its gradients; no size is 0.
struct Convolution {
  ConvPass pass = ConvPass::forward;
  DType dtype = DType::f32;
  bool channels_last = false;       // else row-major; the weight alike
  bool tf32 = false;                // products of f32 may round their inputs to TF32
  std::array<int64_t, 4> x{};       // N, C, H, W
  std::array<int64_t, 4> weight{};  // K, C / groups, R, S
  std::array<int64_t, 4> y{};       // N, K, P, Q
  std::array<int64_t, 2> stride{1, 1};
  std::array<int64_t, 2> padding{0, 0};
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;
  auto operator<=>(const Convolution&) const = default;
};

// Of the three the pass writes one: y, x or weight, in this order of passes.
struct ConvMemory {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  bool accumulate = false;
};

// Whether the library has an algorithm for it, as far as it says before it runs.
bool has_algorithm(Device device, const Convolution& convolution);
// On the current stream of `device`. False, and nothing happens, where there is no algorithm.
bool convolve(Device device, const Convolution& convolution, const ConvMemory& memory);

// "x (2, 3, 7, 9), weight (5, 3, 3, 3), y (2, 5, 5, 7) in bf16, channels-last, …", for errors.
std::string describe(const Convolution& convolution);
const char* op_of(ConvPass pass);

}  // namespace tenon::kernels::cuda
