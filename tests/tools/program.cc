#include "tenon/tests/tools/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "tenon/core/check.h"
#include "tenon/core/random.h"
#include "tenon/core/trace.h"

namespace tenon::testing {
namespace {

namespace fs = std::filesystem;

Words environment() {
  const Words ours{
      // Open MPI's sockets have paths of at most 108 bytes.
      "TMPDIR=/tmp",
      "OMP_WAIT_POLICY=passive",
      // Open MPI leaks.
      "ASAN_OPTIONS=detect_leaks=0",
      "OMPI_MCA_btl_vader_single_copy_mechanism=none",
      "OMPI_MCA_btl_base_warn_component_unused=0",
      "OMPI_ALLOW_RUN_AS_ROOT=1",
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
  };
  Words result = ours;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& own : ours) replaced = replaced || own.starts_with(name);
    if (!replaced) result.push_back(text);
  }
  if (std::getenv("HOME") == nullptr) result.push_back("HOME=/tmp");
  return result;
}

std::vector<char*> pointers(Words& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Starts the command in a process group of its own, so that its children end with it.
pid_t start(Words command, const std::string& out, const std::string& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Words variables = environment();
  pid_t process = -1;
  const int code = ::posix_spawnp(&process, command.front().c_str(), &actions, &attributes,
                                  pointers(command).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  TENON_CHECK(code == 0, "run_program", "cannot start ", command.front());
  return process;
}

void write_big_endian(std::ofstream& file, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift & 255));
}

// Class c has a bright square at the place c, over noise.
void write_images(const std::string& prefix, int count, uint64_t seed) {
  std::ofstream images(prefix + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(prefix + "-labels-idx1-ubyte", std::ios::binary);
  for (const uint32_t word : {0x803u, static_cast<uint32_t>(count), 28u, 28u}) {
    write_big_endian(images, word);
  }
  for (const uint32_t word : {0x801u, static_cast<uint32_t>(count)}) write_big_endian(labels, word);
  for (int i = 0; i < count; ++i) {
    const int label = i % 10, top = label / 5 * 14, left = label % 5 * 5;
    labels.put(static_cast<char>(label));
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        const auto noise =
            philox(seed, static_cast<uint64_t>(i), static_cast<uint64_t>(y * 28 + x));
        const bool bright = y >= top && y < top + 8 && x >= left && x < left + 5;
        images.put(static_cast<char>(noise[0] % 100 + (bright ? 120 : 0)));
      }
    }
  }
}

}  // namespace

std::string Outcome::last_line() const {
  std::string line, last;
  std::istringstream lines(out);
  while (std::getline(lines, line)) last = line;
  return last;
}

Outcome run_program(const Words& command, double limit_seconds) {
  const ScratchDirectory folder;
  const int64_t begin = now_ns();
  const auto seconds = [&] { return static_cast<double>(now_ns() - begin) / 1e9; };
  const pid_t process = start(command, folder.file("out"), folder.file("err"));
  int status = 0;
  bool killed = false;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (seconds() > limit_seconds && !killed) {
      ::kill(-process, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          read_file(folder.file("out")), read_file(folder.file("err")), seconds()};
}

Words on_ranks(int ranks, const Words& command) {
  Words words{"mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string program(const std::string& name) { return "tools/" + name; }

void expect_parts(const std::string& text, const Words& parts) {
  for (const std::string& part : parts) {
    TENON_CHECK(text.find(part) != std::string::npos, "test", "\"", part, "\" is not in:\n", text);
  }
}

void write_image_files(const std::string& folder, int train, int test) {
  fs::create_directories(folder);
  write_images(folder + "/train", train, 1);
  write_images(folder + "/t10k", test, 2);
}

std::vector<tools::Json> read_log(const std::string& path, const std::string& kind) {
  std::vector<tools::Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    tools::Json fields = tools::Json::parse(line);
    if (kind.empty() || fields.at("kind") == kind) lines.push_back(std::move(fields));
  }
  return lines;
}

std::vector<double> losses(const std::string& log) {
  std::vector<double> result;
  for (const tools::Json& line : read_log(log, "step")) result.push_back(line.at("loss"));
  return result;
}

}  // namespace tenon::testing
