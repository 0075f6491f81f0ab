// Labelled grey images in memory, and batches of them as a network takes them.
#pragma once

#include <string>
#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

struct ImageBatch {
  Tensor images;   // (N, 1, H, W)
  Tensor targets;  // (N), i64
};

// Pixels become (x / 255 - mean) / stddev.
struct ImageFormat {
  double mean = 0;
  double stddev = 1;
  DType dtype = DType::f32;  // or f64
};

class ImageDataset {
 public:
  // images (N, H, W) u8, labels (N) u8. `name` begins errors.
  ImageDataset(Tensor images, Tensor labels, const std::string& name = "images");

  int64_t size() const { return images_.dim(0); }
  int64_t height() const { return images_.dim(1); }
  int64_t width() const { return images_.dim(2); }
  // One more than the largest label.
  int64_t classes() const { return classes_; }
  const Tensor& images() const { return images_; }
  const Tensor& labels() const { return labels_; }

  // The samples with these numbers, in this order.
  ImageBatch batch(const std::vector<int64_t>& samples, const ImageFormat& format = {}) const;
  // Mean and standard deviation of all pixels divided by 255.
  ImageFormat measured_format(DType dtype = DType::f32) const;

 private:
  Tensor images_;
  Tensor labels_;
  int64_t classes_ = 0;
};

enum class Split { train, test };

// From the four files of MNIST's names in `directory`: train-images-idx3-ubyte or t10k-…, plain or
// with .gz.
ImageDataset load_idx_dataset(const std::string& directory, Split split);

}  // namespace tenon
