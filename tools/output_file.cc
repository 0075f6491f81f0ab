#include "tenon/tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tenon/core/check.h"

namespace tenon::tools {
namespace {

namespace fs = std::filesystem;

void check_writable_folder(const std::string& flag, const std::string& path, fs::path folder) {
  if (folder.empty()) folder = ".";
  const auto refuse = [&](const std::string& why) {
    throw Error(str("[flags] ", flag, ": cannot write ", path, ": ", folder.string(), why),
                ErrorKind::usage);
  };
  std::error_code error;
  if (!fs::exists(folder, error)) refuse(" does not exist");
  if (!fs::is_directory(folder, error)) refuse(" is not a folder");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse(str(": ", std::strerror(errno)));
}

}  // namespace

void check_output_file(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw Error(str("[flags] ", flag, ": ", path, " is a folder, wanted the name of a file"),
                ErrorKind::usage);
  }
  check_writable_folder(flag, path, fs::path(path).parent_path());
}

void check_output_folder(const std::string& flag, const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  fs::path there = fs::absolute(path, error).lexically_normal();
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  check_writable_folder(flag, path, there);
}

void write_json(const std::string& path, const Json& json) {
  std::ofstream file(path);
  file << json.dump(2) << std::endl;
  TENON_CHECK(file, "json", "cannot write ", path, ": ", std::strerror(errno));
}

}  // namespace tenon::tools
