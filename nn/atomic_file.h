// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <string>

namespace tenon {

// Writes beside `path`; commit() flushes to the disk and renames over `path`. Without commit()
// nothing remains. Failures are Errors that name the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail_with_reason(const char* what) const;

  std::string path_;
  std::string temporary_;
  int file_ = -1;
};

}  // namespace tenon
