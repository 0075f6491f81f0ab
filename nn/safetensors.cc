#include "tenon/nn/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/nn/atomic_file.h"

namespace tenon {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // writes names in our order; finding one takes a walk

constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

constexpr std::pair<const char*, DType> kDTypes[] = {
    {"F32", DType::f32}, {"F64", DType::f64}, {"F16", DType::f16}, {"BF16", DType::bf16},
    {"I64", DType::i64}, {"I32", DType::i32}, {"U8", DType::u8},   {"BOOL", DType::boolean}};

// A tensor as the header describes it; begin and end count from the end of the header.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// ---- writing

const char* file_dtype(DType dtype) {
  for (const auto& [name, known] : kDTypes) {
    if (known == dtype) return name;
  }
  fail("save_safetensors", "no file dtype for ", dtype);
}

OrderedJson header_of(const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    TENON_CHECK(!name.empty() && name != kMetadata && !header.contains(name), "save_safetensors",
                "bad name of a tensor: given \"", name, "\", wanted unique names");
    TENON_CHECK(tensor.is_contiguous(), "save_safetensors", "tensor ", name,
                " is not contiguous: strides ", tensor.strides());
    header[name] = {{"dtype", file_dtype(tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  return header;
}

void write_tensor(AtomicFile& file, const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  if (tensor.device().type == DeviceType::cpu) {
    file.write(tensor.raw_data(), tensor.nbytes());
    return;
  }
  std::vector<char> host(tensor.nbytes());
  copy_bytes(host.data(), kCpu, tensor.raw_data(), tensor.device(), host.size());
  file.write(host.data(), host.size());
}

// ---- reading

// What an error shows of a value: dump() recurses as deeply as a foreign file likes to nest.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = value.dump();
  return text.size() > 40 ? text.substr(0, 40) + "…" : text;
}

// Finds a name that an object has twice, of which Json::parse keeps the last: the format forbids
// it. (With a callback Json::parse takes quadratic time.)
struct NameWatch : nlohmann::json_sax<Json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  bool start_object(size_t) override {
    names.emplace_back();
    return true;
  }
  bool end_object() override {
    names.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!names.back().insert(name).second) twice = name;
    return true;
  }

  std::vector<std::set<std::string>> names;  // of the objects that are open
  std::optional<std::string> twice;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) bad("it is a directory, wanted a file");
    if (std::filesystem::is_other(status)) bad("it is not a regular file");
    file_.open(path, std::ios::binary);
    if (!file_) bad("cannot open it: ", std::strerror(errno));
    size_ = std::filesystem::file_size(path, error);
    if (error) bad("cannot take its size: ", error.message());
  }

  TensorFile read(Category category) {
    const Json header = read_header();
    std::vector<Entry> entries;
    TensorFile result;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        result.metadata = metadata_of(value);
      } else {
        entries.push_back(entry_of(name, value));
      }
    }
    check_layout(entries);
    for (const Entry& entry : entries) {
      result.tensors.push_back({entry.name, read_tensor(entry, category)});
    }
    return result;
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    throw Error(str("[safetensors] ", path_, ": ", parts...), ErrorKind::bad_data);
  }

  void read_bytes(void* to, uint64_t bytes, const std::string& what) {
    file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (static_cast<uint64_t>(file_.gcount()) != bytes) {
      bad(what, " is cut short: read ", file_.gcount(), " of ", bytes, " bytes");
    }
  }

  Json read_header() {
    if (size_ < 8) bad("not a safetensors file: it has ", size_, " bytes, wanted at least 8");
    unsigned char raw[8];
    read_bytes(raw, 8, "the header's length");
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | raw[i];
    if (length > kMaxHeader || length > size_ - 8) {
      bad("not a safetensors file, or cut short: the header would have ", length,
          " bytes, the file has ", size_ - 8, " after the length");
    }
    std::string text(length, '\0');
    read_bytes(text.data(), length, "the header");
    data_size_ = size_ - 8 - length;
    return parse(text);
  }

  Json parse(const std::string& text) const {
    Json header;
    try {
      header = Json::parse(text);
    } catch (const Json::exception& error) {
      bad("not a safetensors file: the header is not JSON: ", error.what());
    }
    if (!header.is_object()) bad("the header is not a JSON object");
    NameWatch watch;
    Json::sax_parse(text, &watch);
    if (watch.twice) bad("the header has the name ", *watch.twice, " twice");
    return header;
  }

  std::map<std::string, std::string> metadata_of(const Json& value) const {
    std::map<std::string, std::string> result;
    if (!value.is_object()) bad(kMetadata, " is not an object of strings");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) bad(kMetadata, " entry ", key, " is not a string");
      result[key] = text.get<std::string>();
    }
    return result;
  }

  Entry entry_of(const std::string& name, const Json& value) const {
    if (!value.is_object()) bad("tensor ", name, ": its description is not an object");
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!value.contains(key)) bad("tensor ", name, ": its description has no ", key);
    }
    Entry entry;
    entry.name = name;
    entry.dtype = dtype_of_entry(name, value["dtype"]);
    const std::vector<uint64_t> offsets = numbers(name, "data_offsets", value["data_offsets"]);
    if (offsets.size() != 2) bad("tensor ", name, ": data_offsets are not two numbers");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const std::vector<uint64_t> sizes = numbers(name, "shape", value["shape"]);
    if (sizes.size() > kMaxDims) {
      bad("tensor ", name, ": given ", sizes.size(), " dimensions, wanted at most ", kMaxDims);
    }
    const uint64_t bytes = bytes_of(name, sizes, size_of(entry.dtype));
    for (const uint64_t size : sizes) entry.shape.push_back(static_cast<int64_t>(size));
    if (entry.begin > entry.end || entry.end > data_size_) {
      bad("tensor ", name, ": its bytes ", entry.begin, " to ", entry.end,
          " lie outside the data of ", data_size_, " bytes (is the file cut short?)");
    }
    if (entry.end - entry.begin != bytes) {
      bad("tensor ", name, ": ", entry.dtype, " ", entry.shape, " needs ", bytes,
          " bytes, data_offsets give ", entry.end - entry.begin);
    }
    return entry;
  }

  DType dtype_of_entry(const std::string& name, const Json& value) const {
    for (const auto& [text, dtype] : kDTypes) {
      if (value == text) return dtype;
    }
    bad("tensor ", name, ": unknown dtype: given ", shown(value),
        ", wanted F32, F64, F16, BF16, I64, I32, U8 or BOOL");
  }

  std::vector<uint64_t> numbers(const std::string& name, const char* key, const Json& value) const {
    std::vector<uint64_t> result;
    if (!value.is_array()) bad("tensor ", name, ": ", key, " is not a list");
    for (const Json& number : value) {
      if (!number.is_number_unsigned()) {
        bad("tensor ", name, ": ", key, " holds ", shown(number), ", wanted whole numbers");
      }
      result.push_back(number.get<uint64_t>());
    }
    return result;
  }

  // The product of the sizes, which a foreign file may let overflow; strides are products of sizes
  // that are not 0.
  uint64_t bytes_of(const std::string& name, const std::vector<uint64_t>& sizes,
                    uint64_t element) const {
    uint64_t bytes = element;
    bool is_empty = false;
    for (const uint64_t size : sizes) {
      if (size > uint64_t{std::numeric_limits<int64_t>::max()} / bytes) {
        bad("tensor ", name, ": its shape is too large");
      }
      is_empty |= size == 0;
      bytes *= std::max<uint64_t>(size, 1);
    }
    return is_empty ? 0 : bytes;
  }

  // Tensors fill the data exactly: no overlap, no hole, nothing behind the last.
  void check_layout(std::vector<Entry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t reached = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != reached) {
        bad("tensor ", entry.name, ": its bytes begin at ", entry.begin,
            entry.begin < reached ? " and overlap those before it" : " after a hole", ", wanted ",
            reached);
      }
      reached = entry.end;
    }
    if (reached != data_size_) {
      bad("the tensors end at byte ", reached, " of the data, the file has ", data_size_);
    }
  }

  Tensor read_tensor(const Entry& entry, Category category) {
    Tensor tensor = empty(entry.shape, {entry.dtype, kCpu, category});
    if (tensor.numel() > 0) read_bytes(tensor.raw_data(), tensor.nbytes(), "tensor " + entry.name);
    return tensor;
  }

  std::string path_;
  std::ifstream file_;
  uint64_t size_ = 0;
  uint64_t data_size_ = 0;
};

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string header = header_of(tensors, metadata).dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // so that the data is aligned
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  AtomicFile file(path);
  file.write(length, sizeof(length));
  file.write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) write_tensor(file, tensor);
  file.commit();
}

TensorFile load_safetensors(const std::string& path, Category category) {
  return Reader(path).read(category);
}

}  // namespace tenon
