#include "tenon/tests/support/ranks.h"

#include <exception>

#include "tenon/tests/support/device.h"

namespace tenon::testing {

World& world() {
  static World* const all = [] {
    auto* const made = new World(0, nullptr);
    // This rank's own context, and the device that the environment asks for.
    choose_device();
    if (on_cuda()) set_default_device(made->use(DeviceType::cuda));
    return made;
  }();
  return *all;
}

void run_on_world(const RankBody& body) {
  World& all = world();
  try {
    body(all.group());
  } catch (const Error& error) {
    all.group().abort(error);
  } catch (const std::exception& error) {
    all.group().abort(Error(error.what()));
  }
}

void expect_error(const std::function<void()>& action, const std::string& part) {
  std::string text;
  try {
    action();
  } catch (const Error& error) {
    text = error.what();
    if (text.find(part) != std::string::npos) return;
  }
  expect(false, "wrong error: given '", text, "', wanted one with '", part, "'");
}

}  // namespace tenon::testing
