#include "tenon/tests/plugin/child.h"

#include <filesystem>

namespace tenon::testing {

std::string plugin(const std::string& name) {
  return std::filesystem::absolute("tools/" + name).string();
}

Outcome child(const Words& environment, const std::string& name, int ranks) {
  Words command{"env", "-u", "TENON_TEST_REPORT",
                "TENON_PLUGIN_DIR=" + std::filesystem::absolute("tools").string()};
  command.insert(command.end(), environment.begin(), environment.end());
  const Words program{std::filesystem::read_symlink("/proc/self/exe").string(), "--use-colour",
                      "no", name};
  command.insert(command.end(), program.begin(), program.end());
  return run_program(ranks > 0 ? on_ranks(ranks, command) : command);
}

}  // namespace tenon::testing
