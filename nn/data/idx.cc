#include "tenon/nn/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "tenon/core/factory.h"

namespace tenon {
namespace {

constexpr int kUnsignedByte = 0x08;

// zlib reads plain files as they are and unpacks compressed ones.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) bad("no such file");
    if (std::filesystem::is_directory(path, error)) bad("it is a directory, wanted a file");
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) bad("cannot open it: ", std::strerror(errno));
    gzbuffer(file_, 1 << 18);
  }
  ~IdxFile() { gzclose(file_); }
  IdxFile(const IdxFile&) = delete;
  IdxFile& operator=(const IdxFile&) = delete;

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    throw Error(str("[read_idx] ", path_, ": ", parts...), ErrorKind::bad_data);
  }

  // The bytes read: fewer than asked for only at the end of the file.
  size_t read(void* to, size_t bytes) {
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
  void check_end() {
    char more = 0;
    if (read(&more, 1) != 0) bad("more data than its sizes say: wanted the end of the file");
    int code = Z_OK;
    gzerror(file_, &code);
    if (code != Z_OK) bad("the compressed data is cut short: ", reason());
  }

 private:
  std::string reason() const {
    int code = Z_OK;
    const char* const text = gzerror(file_, &code);
    return code == Z_ERRNO ? std::strerror(errno) : text;
  }

  std::string path_;
  gzFile file_ = nullptr;
};

Shape read_header(IdxFile& file, int dims) {
  std::array<unsigned char, 4> magic{};
  const size_t got = file.read(magic.data(), magic.size());
  if (got != magic.size()) file.bad("cut short: ", got, " bytes, wanted at least 4");
  if (magic[0] != 0 || magic[1] != 0) {
    file.bad("not an IDX file: it begins with bytes ", int{magic[0]}, " ", int{magic[1]},
             ", wanted 0 0");
  }
  if (magic[2] != kUnsignedByte) {
    file.bad("wrong element type: code ", int{magic[2]}, ", wanted 8 (unsigned bytes)");
  }
  if (magic[3] != dims) {
    file.bad("wrong number of dimensions: given ", int{magic[3]}, ", wanted ", dims);
  }
  Shape shape;
  int64_t total = 1;
  for (int i = 0; i < dims; ++i) {
    std::array<unsigned char, 4> raw{};
    if (file.read(raw.data(), raw.size()) != raw.size()) file.bad("cut short within its sizes");
    const int64_t size =
        int64_t{raw[0]} << 24 | int64_t{raw[1]} << 16 | int64_t{raw[2]} << 8 | int64_t{raw[3]};
    if (size > 0 && total > std::numeric_limits<int64_t>::max() / size) {
      file.bad("its sizes are too large: ", shape, " and then ", size);
    }
    total *= size;
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

Tensor read_idx(const std::string& path, int dims) {
  IdxFile file(path);
  const Shape shape = read_header(file, dims);
  const auto wanted = static_cast<size_t>(shape.numel());
  // Grows with what is really there: sizes of a foreign file may be anything.
  std::vector<uint8_t> values;
  while (values.size() < wanted) {
    const size_t before = values.size();
    values.resize(std::min(wanted, std::max<size_t>(1 << 20, 2 * before)));
    const size_t got = file.read(values.data() + before, values.size() - before);
    if (got < values.size() - before) {
      file.bad("cut short: ", before + got, " bytes of values, wanted ", wanted, " for shape ",
               shape);
    }
  }
  file.check_end();
  return from_data(values, shape, Category::other, kCpu);
}

}  // namespace tenon
