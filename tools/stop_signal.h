// SIGTERM as a request: a run ends after the step it is in, with a checkpoint.
#pragma once

namespace tenon::tools {

// From now on SIGTERM does nothing but make stop_requested() true.
void catch_stop_signal();
bool stop_requested();

}  // namespace tenon::tools
