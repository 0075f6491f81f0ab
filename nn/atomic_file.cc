#include "tenon/nn/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tenon/core/check.h"

namespace tenon {

void AtomicFile::fail_with_reason(const char* what) const {
  fail("save", "cannot ", what, " ", path_, ": ", std::strerror(errno));
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
  file_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) fail_with_reason("create a temporary file for");
  fchmod(file_, 0644);  // mkostemp lets nobody else read
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_reason("write");
    from += written;
    bytes -= static_cast<size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail_with_reason("flush");
  if (close(std::exchange(file_, -1)) != 0) {
    unlink(temporary_.c_str());
    fail_with_reason("close");
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(temporary_.c_str());
    errno = reason;
    fail_with_reason("rename to");
  }
  // The rename itself lasts only once the directory is on the disk.
  const std::string directory = std::filesystem::absolute(path_).parent_path().string();
  const int opened = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  fsync(opened);
  close(opened);
}

}  // namespace tenon
