#include "tenon/tools/run_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tenon/core/check.h"

namespace tenon::tools {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What a name like refs/heads/main stands for.
std::string resolve_reference(const std::filesystem::path& git, const std::string& name) {
  if (const std::string commit = first_line(git / name); !commit.empty()) return commit;
  std::ifstream packed(git / "packed-refs");
  for (std::string line; std::getline(packed, line);) {
    if (line.size() > name.size() + 1 && line.ends_with(" " + name)) {
      return line.substr(0, line.find(' '));
    }
  }
  return {};
}

}  // namespace

RunLog::RunLog(const std::string& path, bool append) : path_(path) {
  if (path.empty()) return;
  file_.open(path, append ? std::ios::app : std::ios::trunc);
  TENON_CHECK(file_, "log", "cannot write ", path, ": ", std::strerror(errno));
}

void RunLog::write(const std::string& kind, const Json& fields) {
  if (!enabled()) return;
  Json line{{"kind", kind}};
  line.update(fields);
  file_ << line.dump() << std::endl;
  TENON_CHECK(file_, "log", "cannot write ", path_, ": ", std::strerror(errno));
}

// Reads git's files instead of running git: a process with MPI had better not fork.
std::string git_revision() {
  std::error_code ignored;
  for (auto folder = std::filesystem::current_path(ignored); !folder.empty();
       folder = folder.parent_path()) {
    const auto git = folder / ".git";
    if (std::filesystem::exists(git / "HEAD", ignored)) {
      const std::string head = first_line(git / "HEAD");
      const std::string prefix = "ref: ";
      return head.starts_with(prefix) ? resolve_reference(git, head.substr(prefix.size())) : head;
    }
    if (folder == folder.parent_path()) break;
  }
  return {};
}

}  // namespace tenon::tools
