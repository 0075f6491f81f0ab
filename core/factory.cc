#include "tenon/core/factory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/runtime.h"

namespace tenon {

namespace {

// Elements of `shape`, whose bytes must fit 63 bits.
size_t checked_numel(const Shape& shape, DType dtype) {
  auto bytes = static_cast<int64_t>(size_of(dtype));
  for (const int64_t dim : shape) {
    TENON_CHECK(dim >= 0, "empty", "negative size: given shape ", shape);
    TENON_CHECK(!__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes), "empty",
                "more bytes than there are addresses: given shape ", shape);
  }
  return static_cast<size_t>(shape.numel());
}

}  // namespace

Tensor empty(const Shape& shape, TensorOptions options) {
  const size_t bytes = checked_numel(shape, options.dtype) * size_of(options.dtype);
  return Tensor(std::make_shared<Storage>(bytes, options.device, options.category), options.dtype,
                shape);
}

Tensor empty_like(const Tensor& like, Category category) {
  const Tensor result = empty(like.shape(), {like.dtype(), like.device(), category});
  if (like.is_contiguous() || !like.is_dense()) return result;
  return result.as_strided(like.shape(), like.strides());
}

// The span of memory that the tensor's elements lie in is copied as it is.
Tensor copied_to(const Tensor& x, Device device) {
  int64_t last = 0;
  for (int i = 0; i < x.ndim(); ++i) last += (x.shape()[i] - 1) * x.strides()[i];
  const int64_t span = x.numel() == 0 ? 0 : last + 1;
  const Tensor memory = empty({span}, {x.dtype(), device, x.storage()->category()});
  if (span > 0) copy_bytes(memory.raw_data(), device, x.raw_data(), x.device(), memory.nbytes());
  return memory.as_strided(x.shape(), x.strides());
}

namespace detail {

Tensor from_bytes(const void* data, size_t bytes, const Shape& shape, TensorOptions options) {
  const Tensor result = empty(shape, options);
  TENON_CHECK(bytes == result.nbytes(), "from_data", "wrong number of values: given ",
              bytes / size_of(options.dtype), ", wanted ", shape.numel(), " for shape ", shape);
  if (bytes > 0) copy_bytes(result.raw_data(), options.device, data, kCpu, bytes);
  return result;
}

}  // namespace detail

Tensor from_vector(const std::vector<double>& values, const Shape& shape, TensorOptions options) {
  std::vector<char> bytes(values.size() * size_of(options.dtype));
  dispatch_all(options.dtype, "from_vector", [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return detail::from_bytes(bytes.data(), bytes.size(), shape, options);
}

Tensor full(const Shape& shape, double value, TensorOptions options) {
  return from_vector(std::vector<double>(checked_numel(shape, options.dtype), value), shape,
                     options);
}

Tensor scalar(double value, TensorOptions options) { return full({}, value, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }

Tensor zeros(const Shape& shape, TensorOptions options) {
  const Tensor result = empty(shape, options);
  runtime(options.device.type)
      .zero(result.storage()->data(), result.nbytes(), current_stream(options.device));
  return result;
}

Tensor arange(int64_t count, TensorOptions options) {
  std::vector<double> values(checked_numel({count}, options.dtype));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<double>(i);
  return from_vector(values, {count}, options);
}

}  // namespace tenon
