// The device that tests of kernels and above run on: $TENON_TEST_DEVICE, "cuda" or nothing for the
// cpu. Tensors are made there by default (set_default_device).
#pragma once

#include <string>
#include <utility>

#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/core/tensor.h"

namespace tenon::testing {

// The type for calls of kernel slots.
inline DeviceType device_type() { return default_device().type; }
inline bool on_cuda() { return device_type() == DeviceType::cuda; }

// The text of an error with the default device in place of the cpu.
std::string here(std::string text);

// Runs `action` and waits for the device, which reports errors in the data only then.
template <class Action>
void settled(Action&& action) {
  std::forward<Action>(action)();
  synchronize(default_device());
}

// Whether two contiguous tensors of one size and dtype hold the same bits.
bool same_bits(const Tensor& a, const Tensor& b);

// Sets the default device of this process from the environment.
void choose_device();

}  // namespace tenon::testing
