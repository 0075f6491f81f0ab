// Shapes and strides: short vectors of int64 kept in place (at most kMaxDims), and broadcasting.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace tenon {

inline constexpr int kMaxDims = 8;

// A vector of at most kMaxDims int64 without heap memory; the base of Shape and of strides.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values);
  explicit Dims(const std::vector<int64_t>& values)
      : Dims(std::span<const int64_t>(values.data(), values.size())) {}

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  int64_t back() const { return values_[static_cast<size_t>(size_ - 1)]; }
  void push_back(int64_t value);
  void insert(int position, int64_t value);
  void erase(int position);
  bool operator==(const Dims& other) const;

 private:
  std::array<int64_t, kMaxDims> values_{};
  int size_ = 0;
};

class Shape : public Dims {
 public:
  using Dims::Dims;
  int64_t numel() const;
};
using Strides = Dims;

// Prints "(2, 3)"; a scalar is "()".
std::ostream& operator<<(std::ostream& out, const Dims& dims);

// Row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);
// Strides of a shape (N, C, H, W) whose memory is in the order N H W C.
Strides channels_last_strides(const Shape& shape);

// The common shape of a and b by numpy's rules; an Error naming `op` and both shapes if there is
// none.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

// Strides that read a tensor (shape, strides) as if it had the shape `to`: 0 in broadcast
// dimensions.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to);

// Turns a possibly negative axis into 0 … rank-1; an Error naming `op` when it is out of range.
int normalize_axis(const char* op, int axis, int rank);

}  // namespace tenon
