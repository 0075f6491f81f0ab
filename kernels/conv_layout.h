// Layouts of images (N, C, H, W) for convolution and pooling, and results that a kernel cannot
// write in place.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon::kernels {

// Strides of N H W C order; dimensions of size 1 may have any stride.
bool is_channels_last(const Tensor& image);
Tensor empty_channels_last(const Shape& shape, DType dtype, Device device);
// The tensor itself if it has layout and dtype, else a copy that has.
Tensor to_channels_last(const Tensor& image, DType dtype);
Tensor to_row_major(const Tensor& tensor, DType dtype);

// Where a kernel writes for the sake of `target`: finish() brings it there.
class Destination {
 public:
  // In place when `target` fits as it is; otherwise through `substitute`, which the kernel
  // overwrites.
  Destination(Tensor& target, bool fits, const Tensor& substitute, bool accumulate)
      : target_(&target), in_place_(fits), accumulate_(accumulate), buffer_(substitute) {}
  Tensor& buffer() { return in_place_ ? *target_ : buffer_; }
  // Whether the kernel itself has to add.
  bool kernel_accumulates() const { return in_place_ && accumulate_; }
  void finish();

 private:
  Tensor* target_;
  bool in_place_;
  bool accumulate_;
  Tensor buffer_;
};

// A destination with the strides of N H W C in `dtype`, for kernels that cannot add.
Destination channels_last_destination(Tensor& image, DType dtype, bool accumulate);
// A row-major destination in `dtype`.
Destination row_major_destination(Tensor& tensor, DType dtype, bool accumulate, bool can_add);

}  // namespace tenon::kernels
