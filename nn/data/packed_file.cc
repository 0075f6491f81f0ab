#include "tenon/nn/data/packed_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tenon {

PackedFile::PackedFile(const char* op, const std::string& path) : op_(op), path_(path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) bad("no such file");
  if (std::filesystem::is_directory(path, error)) bad("it is a directory, wanted a file");
  file_ = gzopen(path.c_str(), "rb");
  if (file_ == nullptr) bad("cannot open it: ", std::strerror(errno));
  gzbuffer(file_, 1 << 18);
}

PackedFile::~PackedFile() { gzclose(file_); }

size_t PackedFile::read(void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const auto part = static_cast<unsigned>(std::min<size_t>(bytes - done, 1 << 20));
    const int got = gzread(file_, static_cast<char*>(to) + done, part);
    if (got < 0) bad("cannot unpack it after ", gztell(file_), " bytes: ", reason());
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// Reading beyond the last byte also makes zlib compare its checksum.
void PackedFile::check_end() {
  char more = 0;
  if (read(&more, 1) != 0) bad("more data than its sizes say: wanted the end of the file");
  int code = Z_OK;
  gzerror(file_, &code);
  if (code != Z_OK) bad("the compressed data is cut short: ", reason());
}

std::string PackedFile::reason() const {
  int code = Z_OK;
  const char* const text = gzerror(file_, &code);
  return code == Z_ERRNO ? std::strerror(errno) : text;
}

}  // namespace tenon
