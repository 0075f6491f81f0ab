#include <exception>
#include <iostream>

#include "tenon/tests/support/catch_session.h"
#include "tenon/tests/support/device.h"

int main(int argc, char** argv) {
  try {
    tenon::testing::choose_device();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return tenon::testing::run_tests(argc, argv);
}
