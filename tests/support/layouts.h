// The same values in other places of memory. Elements between them hold a value that makes an op
// which reads them wrong.
#pragma once

#include <vector>

#include "tenon/core/tensor.h"

namespace tenon::testing {

enum class Layout {
  contiguous,
  transposed,     // the dimensions in reverse order
  narrowed,       // part of a larger tensor in every dimension, at an offset
  spaced,         // every second element
  channels_last,  // N H W C, of four dimensions
  repeated,       // the first entry along the first axis, with a stride of 0
};
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed,    Layout::narrowed,
                                      Layout::spaced,     Layout::channels_last, Layout::repeated};

const char* name_of(Layout layout);
// Whether a tensor of this shape can have the layout and it differs from contiguous.
bool applies(Layout layout, const Shape& shape);
// A new tensor of `values` (in row-major order). `repeated` keeps only the first entry of axis 0.
Tensor make_tensor(const std::vector<double>& values, const Shape& shape, DType dtype,
                   Layout layout = Layout::contiguous);

}  // namespace tenon::testing
