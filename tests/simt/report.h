// What the emulator and the checker find wrong: a kind, so that tests can ask for it, and a text
// that names the op, the source line and the thread. Unless a test takes the reports, the first one
// is printed and ends the process.
#pragma once

#include <string>

namespace simt {

enum class Kind {
  divergent_barrier,     // threads of a block meet at different barriers
  barrier_after_exit,    // a barrier that some threads of the block never reach
  divergent_collective,  // lanes of one mask call different warp functions, or at different places
  mask_mismatch,         // lanes that wait for each other with different masks
  lane_outside_mask,     // the calling lane is not in its own mask
  shuffle_source,        // a value taken from a lane that does not take part
  deadlock,              // everything waits
  shared_limit,          // more shared memory than a block may have
  out_of_bounds,
  use_after_free,
  uninitialised,
  shared_race,
  global_race,
  stream_race,
  host_memory,  // a kernel touches memory that the device cannot reach
  host_access,  // host code touches device memory
  bad_call,     // a runtime function or a device function used where it may not be
};

const char* kind_name(Kind kind);  // "DIVERGENT BARRIER"

struct Report {
  Kind kind;
  std::string text;
};

using ReportHandler = void (*)(const Report&);

// Returns the previous handler; nullptr stands for the default, which prints and aborts. A handler
// may return: a kernel with a broken barrier is then given up, other tasks go on.
ReportHandler set_report_handler(ReportHandler handler);

void report(Kind kind, const std::string& text);

}  // namespace simt
