// Safetensors files byte by byte, for the tests of their reader.
#pragma once

#include <string>

namespace tenon::testing {

// A file of this header and data. `length` stands in front of the header; -1: the header's own.
std::string with_header(const std::string& header, const std::string& data = "",
                        int64_t length = -1);
// The error of reading a file with these bytes, of kind bad_data; checks that it names the file.
std::string error_for(const std::string& bytes);

}  // namespace tenon::testing
