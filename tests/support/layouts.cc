#include "tenon/tests/support/layouts.h"

#include <algorithm>

#include "tenon/core/factory.h"

namespace tenon::testing {
namespace {

struct Placement {
  Strides strides;
  int64_t offset = 0;
  int64_t elements = 0;  // of the storage
};

// Strides of a row-major order over the axes in `order`, outermost first.
Strides strides_in_order(const Shape& shape, const std::vector<int>& order) {
  Strides strides = shape;
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

Placement place(const Shape& shape, Layout layout) {
  Placement result{contiguous_strides(shape), 0, shape.numel()};
  std::vector<int> order;
  switch (layout) {
    case Layout::contiguous:
      break;
    case Layout::transposed:
      for (int i = shape.size() - 1; i >= 0; --i) order.push_back(i);
      result.strides = strides_in_order(shape, order);
      break;
    case Layout::channels_last:
      result.strides = strides_in_order(shape, {0, 2, 3, 1});
      break;
    case Layout::narrowed: {
      Shape larger = shape;
      for (int i = 0; i < shape.size(); ++i) larger[i] += 2;
      result.strides = contiguous_strides(larger);
      for (int i = 0; i < shape.size(); ++i) result.offset += result.strides[i];
      result.elements = larger.numel();
      break;
    }
    case Layout::spaced:
      for (int i = 0; i < shape.size(); ++i) result.strides[i] *= 2;
      result.elements *= 2;
      break;
    case Layout::repeated:
      result.strides[0] = 0;
      break;
  }
  return result;
}

}  // namespace

const char* name_of(Layout layout) {
  constexpr const char* kNames[] = {"contiguous", "transposed",    "narrowed",
                                    "spaced",     "channels-last", "repeated"};
  return kNames[static_cast<int>(layout)];
}

bool applies(Layout layout, const Shape& shape) {
  switch (layout) {
    case Layout::contiguous:
      return true;
    case Layout::transposed:
      return shape.size() >= 2;
    case Layout::channels_last:
      return shape.size() == 4;
    case Layout::narrowed:
    case Layout::spaced:
      return !shape.empty();
    case Layout::repeated:
      return !shape.empty() && shape[0] > 1;
  }
  return false;
}

Tensor make_tensor(const std::vector<double>& values, const Shape& shape, DType dtype,
                   Layout layout) {
  const Placement placement = place(shape, layout);
  std::vector<double> memory(static_cast<size_t>(placement.elements), 77);
  size_t next = 0;
  Dims index = shape;
  for (int64_t at = 0; at < shape.numel(); ++at) {
    int64_t rest = at, to = placement.offset;
    for (int i = shape.size() - 1; i >= 0; --i) {
      index[i] = rest % shape[i];
      rest /= shape[i];
      to += index[i] * placement.strides[i];
    }
    const double value = values[next++];
    if (layout == Layout::repeated && index[0] > 0) continue;
    memory[static_cast<size_t>(to)] = value;
  }
  return from_vector(memory, {placement.elements}, {.dtype = dtype})
      .as_strided(shape, placement.strides, placement.offset);
}

}  // namespace tenon::testing
