// The log of a run: one JSON object a line, flushed per line, so that a killed run leaves all that
// it did.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tenon::tools {

using Json = nlohmann::ordered_json;  // keys stay in the order in which they were given

class RunLog {
 public:
  // Writes nothing when `path` is empty. `append` continues the log of a resumed run.
  RunLog(const std::string& path, bool append);

  bool enabled() const { return file_.is_open(); }
  // A line that begins with {"kind": kind, …. Numbers are written so that reading them gives the
  // same bits.
  void write(const std::string& kind, const Json& fields);

 private:
  std::string path_;
  std::ofstream file_;
};

// The commit that the work tree around the current folder is at; empty outside of one.
std::string git_revision();

}  // namespace tenon::tools
