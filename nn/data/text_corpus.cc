#include "tenon/nn/data/text_corpus.h"

#include <filesystem>

#include "tenon/nn/data/packed_file.h"

namespace tenon {

std::string read_text(const std::string& path) {
  PackedFile file("read_text", path);
  // A plain file needs no more room than its size; the byte beyond it is where its end is noticed.
  std::error_code error;
  const uintmax_t on_disk = std::filesystem::file_size(path, error);
  std::string text(error ? 1 << 16 : on_disk + 1, '\0');
  size_t size = file.read(text.data(), text.size());
  while (size == text.size()) {
    text.resize(2 * size);
    size += file.read(text.data() + size, text.size() - size);
  }
  file.check_end();
  if (size == 0) file.bad("it is empty, wanted text");
  text.resize(size);
  return text;
}

}  // namespace tenon
