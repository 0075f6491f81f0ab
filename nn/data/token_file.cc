#include "tenon/nn/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "tenon/core/check.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr size_t kHeaderInts = 256;
constexpr size_t kHeaderBytes = kHeaderInts * sizeof(int32_t);

struct Header {
  TokenFormat format;
  int32_t magic;
  int32_t version;
  size_t width;  // bytes of a token
  const char* name;
};
constexpr Header kHeaders[] = {
    {TokenFormat::gpt2, 20240520, 1, sizeof(uint16_t), "llm.c's GPT-2 files"},
    {TokenFormat::llama3, 20240801, 7, sizeof(uint32_t), "llm.c's Llama 3 files"},
};

// llm.c's other files (models, optimizer states, multiple-choice tests) have dates of 2024 for
// magic numbers as well. Read as tokens such a file would begin with one above 55000, which GPT-2
// has not.
constexpr bool is_other_magic(int32_t number) { return number >= 20240101 && number <= 20241231; }

template <class... Parts>
[[noreturn]] void bad(const std::string& path, const Parts&... parts) {
  throw Error(str("[token_file] ", path, ": ", parts...), ErrorKind::bad_data);
}

// A whole file as memory that cannot be written.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    // Without O_NONBLOCK a pipe would be waited for here.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) bad(path, "cannot open it: ", std::strerror(errno));
    struct stat status {};
    const bool known = fstat(file, &status) == 0;
    if (known && S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<size_t>(status.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    }
    const int reason = errno;
    close(file);
    if (known && S_ISDIR(status.st_mode)) bad(path, "it is a directory, wanted a file");
    if (known && !S_ISREG(status.st_mode)) bad(path, "it is not a regular file");
    if (known && size_ == 0) bad(path, "it is empty, wanted tokens");
    if (data_ == MAP_FAILED) bad(path, "cannot map it: ", std::strerror(reason));
  }
  ~MappedFile() { munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return static_cast<const char*>(data_); }
  size_t size() const { return size_; }
  // Pages that were read no longer count as this process's memory.
  void forget() const { madvise(data_, size_, MADV_DONTNEED); }

 private:
  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

std::array<int32_t, 3> header_of(const MappedFile& file) {
  std::array<int32_t, 3> numbers{};
  std::memcpy(numbers.data(), file.data(), std::min(sizeof(numbers), file.size()));
  return numbers;
}

// Which of llm.c's formats it is; null means nanoGPT's.
const Header* find_format(const std::string& path, int32_t magic, TokenFormat asked) {
  if (asked == TokenFormat::nanogpt) return nullptr;
  for (const Header& header : kHeaders) {
    const bool matches = magic == header.magic;
    if (asked == header.format && !matches) {
      bad(path, "not one of ", header.name, ": it begins with ", magic, ", wanted ", header.magic);
    }
    if (matches && (asked == header.format || asked == TokenFormat::detect)) return &header;
  }
  if (is_other_magic(magic)) {
    bad(path, "another kind of llm.c's files: it begins with ", magic, ", wanted ",
        kHeaders[0].magic, " or ", kHeaders[1].magic, " (or ask for a file without header)");
  }
  return nullptr;
}

// The number of tokens behind a header, which must be right.
int64_t check_header(const std::string& path, const MappedFile& file, const Header& header) {
  const auto [magic, version, count] = header_of(file);
  if (file.size() < kHeaderBytes) {
    bad(path, "cut short within its header: ", file.size(), " bytes, wanted at least ",
        kHeaderBytes);
  }
  if (version != header.version) {
    bad(path, "wrong version: given ", version, ", ", header.name, " have ", header.version);
  }
  if (count <= 0) bad(path, "wrong number of tokens: given ", count, ", wanted at least 1");
  const size_t wanted = kHeaderBytes + static_cast<size_t>(count) * header.width;
  if (file.size() != wanted) {
    bad(path, file.size() < wanted ? "cut short" : "more data than its header says", ": ",
        file.size(), " bytes, wanted ", wanted, " for ", count, " tokens");
  }
  return count;
}

Tokens tokens_of(const std::string& path, const std::shared_ptr<const MappedFile>& file,
                 TokenFormat format) {
  const Header* const header = find_format(path, header_of(*file)[0], format);
  if (header == nullptr) {
    if (file->size() % sizeof(uint16_t) != 0) {
      bad(path, "not a file of tokens of 2 bytes: it has ", file->size(), ", an odd number");
    }
    return {file, reinterpret_cast<const uint16_t*>(file->data()),
            static_cast<int64_t>(file->size() / sizeof(uint16_t)), path};
  }
  const int64_t count = check_header(path, *file, *header);
  const char* const first = file->data() + kHeaderBytes;
  if (header->width == sizeof(uint16_t)) {
    return {file, reinterpret_cast<const uint16_t*>(first), count, path};
  }
  return {file, reinterpret_cast<const uint32_t*>(first), count, path};
}

template <class T>
void write_tokens(std::ofstream& file, std::span<const int32_t> tokens) {
  constexpr size_t kPart = 1 << 16;
  for (size_t begin = 0; begin < tokens.size(); begin += kPart) {
    const auto from = tokens.subspan(begin, std::min(kPart, tokens.size() - begin));
    const std::vector<T> part(from.begin(), from.end());
    file.write(reinterpret_cast<const char*>(part.data()),
               static_cast<std::streamsize>(part.size() * sizeof(T)));
  }
}

void check_writable(const std::string& path, std::span<const int32_t> tokens,
                    const Header* header) {
  TENON_CHECK(!tokens.empty(), "token_file", path, ": no tokens to write");
  TENON_CHECK(tokens.size() <= size_t{std::numeric_limits<int32_t>::max()} || header == nullptr,
              "token_file", path, ": too many tokens for a header: given ", tokens.size());
  const bool wide = header != nullptr && header->width == sizeof(uint32_t);
  const int32_t largest =
      wide ? std::numeric_limits<int32_t>::max() : int32_t{std::numeric_limits<uint16_t>::max()};
  for (size_t i = 0; i < tokens.size(); ++i) {
    TENON_CHECK(tokens[i] >= 0 && tokens[i] <= largest, "token_file", path, ": token ", tokens[i],
                " at place ", i, " does not fit: wanted 0 <= token <= ", largest);
  }
}

}  // namespace

Tokens read_token_file(const std::string& path, TokenFileOptions options) {
  const auto file = std::make_shared<const MappedFile>(path);
  Tokens tokens = tokens_of(path, file, options.format);
  if (options.vocab_size <= 0) return tokens;
  constexpr int64_t kPart = 8 << 20;
  for (int64_t begin = 0; begin < tokens.size(); begin += kPart) {
    tokens.check_below(options.vocab_size, begin, std::min(begin + kPart, tokens.size()));
    file->forget();
  }
  return tokens;
}

void write_token_file(const std::string& path, std::span<const int32_t> tokens,
                      TokenFormat format) {
  TENON_CHECK(format != TokenFormat::detect, "token_file", path,
              ": no format to write: wanted gpt2, llama3 or nanogpt");
  const Header* header = nullptr;
  for (const Header& known : kHeaders) {
    if (known.format == format) header = &known;
  }
  check_writable(path, tokens, header);
  // Whoever has the old file mapped keeps it whole.
  const std::string temporary = path + ".part";
  std::ofstream file(temporary, std::ios::binary);
  if (header != nullptr) {
    const std::array<int32_t, kHeaderInts> numbers{header->magic, header->version,
                                                   static_cast<int32_t>(tokens.size())};
    file.write(reinterpret_cast<const char*>(numbers.data()), kHeaderBytes);
  }
  if (header != nullptr && header->width == sizeof(uint32_t)) {
    write_tokens<uint32_t>(file, tokens);
  } else {
    write_tokens<uint16_t>(file, tokens);
  }
  file.close();
  const bool written = file.good() && std::rename(temporary.c_str(), path.c_str()) == 0;
  const int reason = errno;
  if (!written) std::remove(temporary.c_str());
  TENON_CHECK(written, "token_file", path, ": cannot write it: ", std::strerror(reason));
}

}  // namespace tenon
