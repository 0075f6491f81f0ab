// Conversion of rows between dtypes and strides. The kernels that compute element by element load
// their operands through these into the type they compute in, and store the result the same way.
#pragma once

#include <cstdint>

#include "tenon/core/dtype.h"

namespace tenon::kernels::cpu {

// to[i * to_stride] = from[i * from_stride]; strides in elements, 0 repeats an element.
using RowConverter = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                              int64_t n);

// Floating to integer truncates, anything to bool is != 0, 16-bit results round to nearest even.
RowConverter row_converter(DType from, DType to);

inline const void* at_element(const void* data, DType dtype, int64_t offset) {
  return static_cast<const char*>(data) + offset * static_cast<int64_t>(size_of(dtype));
}
inline void* at_element(void* data, DType dtype, int64_t offset) {
  return static_cast<char*>(data) + offset * static_cast<int64_t>(size_of(dtype));
}

}  // namespace tenon::kernels::cpu
