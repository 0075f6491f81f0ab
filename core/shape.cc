#include "tenon/core/shape.h"

#include <algorithm>

#include "tenon/core/check.h"

namespace tenon {

Dims::Dims(std::span<const int64_t> values) : size_(static_cast<int>(values.size())) {
  TENON_CHECK(values.size() <= kMaxDims, "shape", "too many dimensions: given ", values.size(),
              ", wanted at most ", kMaxDims);
  std::copy(values.begin(), values.end(), values_.begin());
}

void Dims::push_back(int64_t value) { insert(size_, value); }

void Dims::insert(int position, int64_t value) {
  TENON_CHECK(size_ < kMaxDims, "shape", "too many dimensions: wanted at most ", kMaxDims);
  std::copy_backward(values_.begin() + position, values_.begin() + size_,
                     values_.begin() + size_ + 1);
  values_[static_cast<size_t>(position)] = value;
  ++size_;
}

void Dims::erase(int position) {
  std::copy(values_.begin() + position + 1, values_.begin() + size_, values_.begin() + position);
  --size_;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

int64_t Shape::numel() const {
  int64_t count = 1;
  for (const int64_t dim : *this) count *= dim;
  return count;
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '(';
  for (int i = 0; i < dims.size(); ++i) out << (i == 0 ? "" : ", ") << dims[i];
  return out << ')';
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  return {h * w * c, 1, w * c, c};
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const int offset = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    int64_t& dim = result[offset + i];
    if (dim == 1) {
      dim = shorter[i];
    } else {
      TENON_CHECK(shorter[i] == dim || shorter[i] == 1, op, "shapes do not broadcast: given ", a,
                  " and ", b, ", wanted equal sizes or 1 from the last dimension on");
    }
  }
  return result;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides result = to;
  const int offset = to.size() - shape.size();
  for (int i = 0; i < to.size(); ++i) {
    const bool repeated = i < offset || (shape[i - offset] == 1 && to[i] != 1);
    result[i] = repeated ? 0 : strides[i - offset];
  }
  return result;
}

int normalize_axis(const char* op, int axis, int rank) {
  TENON_CHECK(axis >= -rank && axis < rank, op, "axis out of range: given ", axis,
              ", wanted within [", -rank, ", ", rank - 1, "]");
  return axis < 0 ? axis + rank : axis;
}

}  // namespace tenon
