// Runs a hidden case of this program in a process of its own, because a process opens one plug-in
// at most and reads the environment once.
#pragma once

#include <string>

#include "tenon/tests/tools/program.h"

namespace tenon::testing {

// The hidden case `name`, with the settings of `environment` ("NAME=value"); under mpirun with
// `ranks`, if there are any.
Outcome child(const Words& environment, const std::string& name, int ranks = 0);

// The path of a plug-in, which //tests:plugin has as data.
std::string plugin(const std::string& name);

}  // namespace tenon::testing
