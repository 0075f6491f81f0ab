// A file read from its beginning to its end, plain or gzip-compressed: zlib tells them apart.
// Every Error is bad_data and begins with "[op] path: ".
#pragma once

#include <cstddef>
#include <string>

#include "tenon/core/check.h"

struct gzFile_s;

namespace tenon {

class PackedFile {
 public:
  // A missing file and a directory are Errors.
  PackedFile(const char* op, const std::string& path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    throw Error(str("[", op_, "] ", path_, ": ", parts...), ErrorKind::bad_data);
  }

  // The bytes read: fewer than asked for only at the end of the file.
  size_t read(void* to, size_t bytes);
  // An Error unless everything was read and, in a compressed file, is whole.
  void check_end();

 private:
  std::string reason() const;

  const char* op_;
  std::string path_;
  gzFile_s* file_ = nullptr;
};

}  // namespace tenon
