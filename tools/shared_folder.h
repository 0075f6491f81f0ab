// A temporary folder that the ranks of a node share.
#pragma once

#include <filesystem>
#include <string>

#include "tenon/distributed/comm/process_group.h"

namespace tenon::tools {

// Collective. Rank 0 removes it at the end.
class SharedFolder {
 public:
  explicit SharedFolder(ProcessGroup group);
  ~SharedFolder();
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  ProcessGroup group_;
  std::filesystem::path path_;
};

}  // namespace tenon::tools
