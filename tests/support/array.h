// A plain array of doubles, for the naive reference of an op: no strides, no dtypes, no sharing.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tenon/core/shape.h"
#include "tenon/core/tensor.h"

namespace tenon::testing {

struct Array {
  Shape shape;
  std::vector<double> values;  // row-major

  explicit Array(const Shape& shape_of_all, double value = 0)
      : shape(shape_of_all), values(static_cast<size_t>(shape.numel()), value) {}
  explicit Array(const Tensor& tensor) : shape(tensor.shape()), values(tensor.to_vector()) {}

  int64_t dim(int axis) const { return shape[axis < 0 ? axis + shape.size() : axis]; }
  double& operator[](const Dims& index) { return values[place(index)]; }
  double operator[](const Dims& index) const { return values[place(index)]; }
  // The element that `index` of a shape this one is broadcast to reads.
  double broadcast(const Dims& index) const;

 private:
  size_t place(const Dims& index) const;
};

// Calls body(index) for every index of `shape`, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body);

// f(x) of every element.
Array map(const Array& x, const std::function<double(double)>& f);
// f(a, b) of every pair, broadcast.
Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f);

}  // namespace tenon::testing
