#pragma once
// Catch2's session, for the main functions of test programs. A main that needs something around
// the tests (MPI, for example) sets it up and then calls run_tests.

namespace tenon::testing {

// Runs the tests that the arguments select and returns the exit status.
int run_tests(int argc, char** argv);

}  // namespace tenon::testing
