#include "tenon/kernels/conv_layout.h"

#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

Tensor copied(const Tensor& from, Tensor to) {
  copy(from.device().type, from, to);
  return to;
}

}  // namespace

bool is_channels_last(const Tensor& image) {
  const Strides wanted = channels_last_strides(image.shape());
  for (int i = 0; i < 4; ++i) {
    if (image.shape()[i] > 1 && image.strides()[i] != wanted[i]) return false;
  }
  return true;
}

Tensor empty_channels_last(const Shape& shape, DType dtype, Device device) {
  return empty(shape, {dtype, device, Category::other})
      .as_strided(shape, channels_last_strides(shape));
}

Tensor to_channels_last(const Tensor& image, DType dtype) {
  if (image.dtype() == dtype && is_channels_last(image)) return image;
  return copied(image, empty_channels_last(image.shape(), dtype, image.device()));
}

Tensor to_row_major(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype && tensor.is_contiguous()) return tensor;
  return copied(tensor, empty(tensor.shape(), {dtype, tensor.device(), Category::other}));
}

void Destination::finish() {
  if (in_place_) return;
  if (accumulate_) {
    kernels::accumulate(buffer_.device().type, buffer_, *target_, 1.0);
  } else {
    copy(buffer_.device().type, buffer_, *target_);
  }
}

Destination channels_last_destination(Tensor& image, DType dtype, bool accumulate) {
  const bool fits = image.dtype() == dtype && is_channels_last(image) && !accumulate;
  return {image, fits, fits ? Tensor() : empty_channels_last(image.shape(), dtype, image.device()),
          accumulate};
}

Destination row_major_destination(Tensor& tensor, DType dtype, bool accumulate, bool can_add) {
  const bool fits = tensor.dtype() == dtype && tensor.is_contiguous() && (can_add || !accumulate);
  return {tensor, fits,
          fits ? Tensor() : empty(tensor.shape(), {dtype, tensor.device(), Category::other}),
          accumulate};
}

}  // namespace tenon::kernels
