#include "tenon/nn/data/image_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/factory.h"
#include "tenon/nn/data/idx.h"

namespace tenon {
namespace {

[[noreturn]] void bad(const std::string& name, const std::string& text) {
  throw Error(str("[dataset] ", name, ": ", text), ErrorKind::bad_data);
}

std::string find_file(const std::string& directory, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(directory) / name;
  for (const std::string& path : {plain.string(), plain.string() + ".gz"}) {
    if (std::filesystem::exists(path)) return path;
  }
  bad(directory, str("no file ", name, " or ", name, ".gz in this directory"));
}

// What each of the 256 values of a pixel becomes.
template <class T>
std::array<T, 256> pixel_table(const ImageFormat& format) {
  std::array<T, 256> table;
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<T>((static_cast<double>(i) / 255 - format.mean) / format.stddev);
  }
  return table;
}

}  // namespace

ImageDataset::ImageDataset(Tensor images, Tensor labels, const std::string& name)
    : images_(std::move(images)), labels_(std::move(labels)) {
  if (images_.dtype() != DType::u8 || images_.ndim() != 3 || labels_.dtype() != DType::u8 ||
      labels_.ndim() != 1) {
    bad(name, str("wrong arrays: images ", describe(images_), " and labels ", describe(labels_),
                  ", wanted u8 (N, H, W) and u8 (N)"));
  }
  if (images_.dim(0) != labels_.dim(0)) {
    bad(name, str("images and labels do not belong together: ", images_.dim(0), " images, ",
                  labels_.dim(0), " labels"));
  }
  if (images_.numel() == 0) bad(name, str("no images: shape ", images_.shape()));
  const uint8_t* const label = labels_.data<uint8_t>();
  classes_ = 1 + int64_t{*std::max_element(label, label + size())};
}

ImageBatch ImageDataset::batch(const std::vector<int64_t>& samples,
                               const ImageFormat& format) const {
  TENON_CHECK(format.stddev > 0, "dataset", "bad stddev: given ", format.stddev,
              ", wanted a positive number");
  const auto count = static_cast<int64_t>(samples.size());
  for (const int64_t sample : samples) {
    TENON_CHECK(sample >= 0 && sample < size(), "dataset", "no such sample: given ", sample,
                ", there are ", size());
  }
  const ImageBatch result{
      empty({count, 1, height(), width()}, {.dtype = format.dtype, .device = kCpu}),
      empty({count}, {.dtype = DType::i64, .device = kCpu})};
  const int64_t pixels = height() * width();
  const uint8_t* const from = images_.data<uint8_t>();
  const uint8_t* const labels = labels_.data<uint8_t>();
  int64_t* const targets = result.targets.data<int64_t>();
  for (int64_t i = 0; i < count; ++i) targets[i] = labels[samples[static_cast<size_t>(i)]];
  dispatch_types<float, double>(format.dtype, "dataset", [&]<class T>() {
    const std::array<T, 256> table = pixel_table<T>(format);
    T* const to = result.images.data<T>();
    // One thread: a batch takes some 10 us, less than waking others.
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* const image = from + samples[static_cast<size_t>(i)] * pixels;
      for (int64_t p = 0; p < pixels; ++p) to[i * pixels + p] = table[image[p]];
    }
  });
  return result;
}

ImageFormat ImageDataset::measured_format(DType dtype) const {
  std::array<int64_t, 256> counts{};
  const uint8_t* const pixels = images_.data<uint8_t>();
  for (int64_t i = 0; i < images_.numel(); ++i) ++counts[pixels[i]];
  double sum = 0, squares = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double value = static_cast<double>(i) / 255, count = static_cast<double>(counts[i]);
    sum += count * value;
    squares += count * value * value;
  }
  const auto total = static_cast<double>(images_.numel());
  const double mean = sum / total, variance = squares / total - mean * mean;
  return {mean, variance > 0 ? std::sqrt(variance) : 1, dtype};
}

ImageDataset load_idx_dataset(const std::string& directory, Split split) {
  if (!std::filesystem::is_directory(directory)) {
    bad(directory, "no such directory: wanted one with IDX files");
  }
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string images = find_file(directory, prefix + "-images-idx3-ubyte");
  const std::string labels = find_file(directory, prefix + "-labels-idx1-ubyte");
  return ImageDataset(read_idx(images, 3), read_idx(labels, 1), images + " and " + labels);
}

}  // namespace tenon
