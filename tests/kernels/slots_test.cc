// Every declared kernel slot is filled for the device, and no header forgets to list one.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tenon/tests/support/device.h"
#include "tenon/tests/support/slots.h"

namespace tenon {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("every kernel slot is filled for the device") {
  for (const KernelSlotBase* slot : testing::all_slots()) {
    INFO(slot->op());
    CHECK(slot->filled(testing::device_type()));
  }
}

TEST_CASE("every header of kernels lists all of its slots") {
  const auto known = testing::slots_by_header();
  size_t headers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("kernels")) {
    if (entry.path().extension() != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string name = entry.path().filename();
    INFO(name);
    // pointwise.h declares 5 more in the templates of its lists.
    const size_t in_templates = name == "pointwise.h" ? 5 : 0;
    const auto found = known.find(name);
    const size_t listed = found == known.end() ? 0 : found->second.size();
    CHECK(count(text.str(), "KernelSlot<") == listed + in_templates);
    ++headers;
  }
  CHECK(headers >= known.size());
}

}  // namespace tenon
