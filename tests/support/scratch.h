// Files of tests, and the text of expected errors.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tenon/core/check.h"

namespace tenon::testing {

// A directory of its own that disappears with its content.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon_test.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail("test", "cannot make a directory ", name);
    path_ = name;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The text of the Error that `action` throws; "no error" if it throws none.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The same for an Error that must be of kind bad_data.
template <class Action>
std::string bad_data_error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::bad_data ? error.what()
                                               : str("not of kind bad_data: ", error.what());
  }
  return "no error";
}

}  // namespace tenon::testing
