// Running the programs of tools/ from tests, and a small data set for them.
#pragma once

#include <string>
#include <vector>

#include "tenon/tests/support/scratch.h"
#include "tenon/tools/run_log.h"

namespace tenon::testing {

struct Outcome {
  int status = -1;  // 128 + signal if a signal ended it
  std::string out;
  std::string err;
  double seconds = 0;
  std::string last_line() const;  // of out
};

using Words = std::vector<std::string>;

// Runs a command to its end. After `limit_seconds` it is killed.
Outcome run_program(const Words& command, double limit_seconds = 120);
// The command under mpirun.
Words on_ranks(int ranks, const Words& command);
// The path of a program that //tests:tools has as data.
std::string program(const std::string& name);

// `text` holds every one of `parts`; otherwise an Error with both.
void expect_parts(const std::string& text, const Words& parts);

// IDX files of 28x28 images whose classes are easy to tell apart.
void write_image_files(const std::string& folder, int train, int test);

// The lines of a log, those of one kind only if it is given.
std::vector<tools::Json> read_log(const std::string& path, const std::string& kind = "");
std::vector<double> losses(const std::string& log);

}  // namespace tenon::testing
