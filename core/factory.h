// Making tensors. Options name dtype, device and what the memory is for.
#pragma once

#include <initializer_list>
#include <vector>

#include "tenon/core/rank_context.h"
#include "tenon/core/tensor.h"

namespace tenon {

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = default_device();
  Category category = Category::activation;
};

// Contents undefined.
Tensor empty(const Shape& shape, TensorOptions options = {});
// Same shape, dtype, device and, if `like` is dense, the same strides.
Tensor empty_like(const Tensor& like, Category category = Category::activation);
// The same values and strides in memory of `device`, under the same category; no gradient record.
Tensor copied_to(const Tensor& x, Device device);
// The bytes of a row-major tensor set from a list of values in row-major order.
Tensor from_vector(const std::vector<double>& values, const Shape& shape,
                   TensorOptions options = {});
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape,
                 Category category = Category::activation, Device device = default_device());
Tensor scalar(double value, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, double value, TensorOptions options = {});
// 0, 1, … count-1.
Tensor arange(int64_t count, TensorOptions options = {.dtype = DType::i64});

namespace detail {
Tensor from_bytes(const void* data, size_t bytes, const Shape& shape, TensorOptions options);
}

template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape, Category category,
                 Device device) {
  return detail::from_bytes(values.data(), values.size() * sizeof(T), shape,
                            {dtype_of<T>, device, category});
}

}  // namespace tenon
