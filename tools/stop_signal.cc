#include "tenon/tools/stop_signal.h"

#include <csignal>

namespace tenon::tools {
namespace {

volatile std::sig_atomic_t requested = 0;

}  // namespace

void catch_stop_signal() {
  struct sigaction action = {};
  action.sa_handler = [](int) { requested = 1; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

}  // namespace tenon::tools
