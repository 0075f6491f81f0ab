#include "tenon/tests/support/device.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tenon/core/check.h"
#include "tenon/core/factory.h"

namespace tenon::testing {

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = copied_to(a, kCpu), y = copied_to(b, kCpu);
  return std::memcmp(x.raw_data(), y.raw_data(), x.nbytes()) == 0;
}

void choose_device() {
  const char* text = std::getenv("TENON_TEST_DEVICE");
  if (text != nullptr && std::string_view(text) == "cuda") {
    set_default_device({DeviceType::cuda, 0});
  }
}

std::string here(std::string text) {
  const std::string cpu = " on cpu";
  const std::string device = str(" on ", default_device());
  for (size_t at = text.find(cpu); at != std::string::npos; at = text.find(cpu, at + 1)) {
    text.replace(at, cpu.size(), device);
  }
  return text;
}

}  // namespace tenon::testing
