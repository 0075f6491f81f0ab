// Where a tensor lives: the CPU, or CUDA device number `index`.
#pragma once

#include <cstdint>
#include <ostream>

namespace tenon {

enum class DeviceType : uint8_t { cpu, cuda };
inline constexpr int kDeviceTypeCount = 2;

constexpr const char* name_of(DeviceType type) { return type == DeviceType::cpu ? "cpu" : "cuda"; }
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << name_of(type); }

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};
inline constexpr Device kCpu{};

inline std::ostream& operator<<(std::ostream& out, Device device) {
  out << device.type;
  if (device.type == DeviceType::cuda) out << ':' << device.index;
  return out;
}

}  // namespace tenon
