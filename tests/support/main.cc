#include "tenon/tests/support/catch_session.h"

int main(int argc, char** argv) { return tenon::testing::run_tests(argc, argv); }
