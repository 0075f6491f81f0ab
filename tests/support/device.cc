#include "tenon/tests/support/device.h"

#include <cstdlib>
#include <string_view>

namespace tenon::testing {

void choose_device() {
  const char* text = std::getenv("TENON_TEST_DEVICE");
  if (text != nullptr && std::string_view(text) == "cuda") {
    set_default_device({DeviceType::cuda, 0});
  }
}

}  // namespace tenon::testing
