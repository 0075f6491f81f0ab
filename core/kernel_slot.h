// Kernel slots: the device choice. A slot is a typed table of function pointers, one per device
// type, filled by whichever device library is loaded. Calling an empty slot is an Error.
#pragma once

#include <array>
#include <atomic>

#include "tenon/core/check.h"
#include "tenon/core/device.h"

namespace tenon {

// What all slots share, so that a header can list its slots for the completeness test.
class KernelSlotBase {
 public:
  constexpr explicit KernelSlotBase(const char* op) : op_(op) {}
  const char* op() const { return op_; }
  bool filled(DeviceType device) const { return filled_[static_cast<size_t>(device)]; }

 protected:
  const char* op_;
  std::array<std::atomic<bool>, kDeviceTypeCount> filled_{};
};

template <class Signature>
class KernelSlot;

template <class... Args>
class KernelSlot<void(Args...)> : public KernelSlotBase {
 public:
  using Kernel = void (*)(Args...);
  constexpr explicit KernelSlot(const char* op) : KernelSlotBase(op) {}

  void operator()(DeviceType device, Args... args) const {
    const Kernel kernel = kernels_[static_cast<size_t>(device)].load(std::memory_order_acquire);
    TENON_CHECK(kernel != nullptr, op_, "no ", device, " kernel in this build");
    kernel(args...);
  }
  // Returns true, so that a static bool in the kernel's file can fill the slot.
  bool set(DeviceType device, Kernel kernel) {
    kernels_[static_cast<size_t>(device)].store(kernel, std::memory_order_release);
    filled_[static_cast<size_t>(device)] = kernel != nullptr;
    return true;
  }

 private:
  std::array<std::atomic<Kernel>, kDeviceTypeCount> kernels_{};
};

}  // namespace tenon
