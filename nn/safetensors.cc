#include "tenon/nn/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/nn/atomic_file.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

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

Json header_of(const std::vector<NamedTensor>& tensors,
               const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
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

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) bad("it is a directory, wanted a file");
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

  // The parser keeps the last of two equal names; the format forbids them.
  Json parse(const std::string& text) const {
    std::vector<std::set<std::string>> names;
    std::string twice;
    const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key) {
        const auto name = parsed.get<std::string>();
        if (!names.back().insert(name).second) twice = name;
      }
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, watch);
    } catch (const Json::exception& error) {
      bad("not a safetensors file: the header is not JSON: ", error.what());
    }
    if (!header.is_object()) bad("the header is not a JSON object");
    if (!twice.empty()) bad("the header has the name ", twice, " twice");
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
    bad("tensor ", name, ": unknown dtype: given ", value.dump(),
        ", wanted F32, F64, F16, BF16, I64, I32, U8 or BOOL");
  }

  std::vector<uint64_t> numbers(const std::string& name, const char* key, const Json& value) const {
    std::vector<uint64_t> result;
    if (!value.is_array()) bad("tensor ", name, ": ", key, " is not a list");
    for (const Json& number : value) {
      if (!number.is_number_unsigned()) {
        bad("tensor ", name, ": ", key, " holds ", number.dump(), ", wanted whole numbers");
      }
      result.push_back(number.get<uint64_t>());
    }
    return result;
  }

  // The product of the sizes, which a foreign file may let overflow.
  uint64_t bytes_of(const std::string& name, const std::vector<uint64_t>& sizes,
                    uint64_t element) const {
    uint64_t bytes = element;
    const bool is_empty = std::find(sizes.begin(), sizes.end(), 0u) != sizes.end();
    for (const uint64_t size : sizes) {
      if (size > uint64_t{std::numeric_limits<int64_t>::max()} / std::max<uint64_t>(bytes, 1)) {
        bad("tensor ", name, ": its shape is too large");
      }
      bytes *= is_empty ? 1 : size;
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
