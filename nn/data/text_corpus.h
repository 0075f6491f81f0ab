// Text to train on, read whole into memory.
#pragma once

#include <string>

namespace tenon {

// The bytes of a text file, plain or gzip-compressed. A missing, unreadable or empty file and a
// directory are bad_data Errors that name it.
std::string read_text(const std::string& path);

}  // namespace tenon
