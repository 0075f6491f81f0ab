#include "tenon/nn/data/idx.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "tenon/core/factory.h"
#include "tenon/nn/data/packed_file.h"

namespace tenon {
namespace {

constexpr int kUnsignedByte = 0x08;

Shape read_header(PackedFile& file, int dims) {
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
  PackedFile file("read_idx", path);
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
