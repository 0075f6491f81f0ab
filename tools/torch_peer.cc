#include "tenon/tools/torch_peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "tenon/core/check.h"

namespace tenon::tools {
namespace {

constexpr const char* kOp = "torch";

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() { TENON_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, kOp, std::strerror(errno)); }
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

}  // namespace

TorchPeer::TorchPeer(const std::vector<std::string>& command,
                     const std::map<std::string, std::string>& environment) {
  Pipe commands, answers;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, commands.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.ends[1], STDOUT_FILENO);
  std::vector<std::string> arguments = command, variables = environment_with(environment);
  const int code = ::posix_spawnp(&process_, command.front().c_str(), &actions, nullptr,
                                  pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(commands.ends[0]);
  ::close(answers.ends[1]);
  to_ = ::fdopen(commands.ends[1], "w");
  from_ = ::fdopen(answers.ends[0], "r");
  if (code != 0) {
    process_ = -1;
    fail(kOp, "cannot start ", command.front(), ": ", std::strerror(code));
  }
  greeting_ = read_answer();
}

TorchPeer::~TorchPeer() {
  if (to_ != nullptr) std::fclose(to_);  // it ends at the end of its input
  if (from_ != nullptr) std::fclose(from_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

Json TorchPeer::ask(const std::string& command) {
  std::fprintf(to_, "%s\n", command.c_str());
  std::fflush(to_);
  return read_answer();
}

double TorchPeer::run(int64_t steps) { return ask(str("run ", steps)).at("ms").get<double>(); }

Json TorchPeer::read_answer() {
  std::string line;
  for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) {
    line.push_back(static_cast<char>(c));
  }
  const Json answer = Json::parse(line, nullptr, false);
  TENON_CHECK(!answer.is_discarded(), kOp, "the PyTorch process gave no answer: given \"", line,
              "\", its own message is above");
  return answer;
}

std::string torch_peer_script() {
  namespace fs = std::filesystem;
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path runfiles = program.string() + ".runfiles";
  for (const fs::path& path :
       {runfiles / "tenon/tools/torch_peer.py", program.parent_path() / "torch_peer.py",
        fs::path("tools/torch_peer.py")}) {
    if (fs::exists(path)) return path.string();
  }
  fail(kOp, "torch_peer.py is neither beside ", program.string(), " nor in tools/");
}

}  // namespace tenon::tools
