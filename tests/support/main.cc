#include "tenon/tests/support/catch_session.h"
#include "tenon/tests/support/device.h"

int main(int argc, char** argv) {
  tenon::testing::choose_device();
  return tenon::testing::run_tests(argc, argv);
}
