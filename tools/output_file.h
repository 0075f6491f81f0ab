// Files that a program writes at its end: that it can is known at its start.
#pragma once

#include <string>

#include "tenon/tools/run_log.h"

namespace tenon::tools {

// A usage error, which names the flag, when no file can be written at `path`; nothing for "".
void check_output_file(const std::string& flag, const std::string& path);
// The same for a folder, which need not exist yet, nor those above it.
void check_output_folder(const std::string& flag, const std::string& path);

void write_json(const std::string& path, const Json& json);

}  // namespace tenon::tools
