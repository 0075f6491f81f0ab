// Printing of tensors.
#include <algorithm>
#include <iomanip>
#include <ostream>

#include "tenon/core/tensor.h"

namespace tenon {
namespace {

constexpr int64_t kEdge = 3;         // elements shown at each end of a long axis
constexpr int64_t kPrintAll = 1000;  // up to this many elements are shown in full

struct Printer {
  std::ostream& out;
  const std::vector<double>& values;
  const Shape& shape;
  bool abbreviate;
  bool floating;

  void value(double x) {
    if (floating) {
      out << std::setprecision(5) << x;
    } else {
      out << static_cast<int64_t>(x);
    }
  }
  void axis(int depth, int64_t begin, int64_t step) {
    if (depth == shape.size()) {
      value(values[static_cast<size_t>(begin)]);
      return;
    }
    const int64_t size = shape[depth];
    const int64_t inner = size == 0 ? 0 : step / size;
    out << '[';
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0)
        out << (depth + 1 == shape.size()
                    ? ", "
                    : ",\n" + std::string(static_cast<size_t>(depth) + 1, ' '));
      if (abbreviate && size > 2 * kEdge && i == kEdge) {
        out << "…";
        i = size - kEdge - 1;
        continue;
      }
      axis(depth + 1, begin + i * inner, inner);
    }
    out << ']';
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "undefined tensor";
  const std::vector<double> values = tensor.to_vector();
  const auto flags = out.flags();
  const auto precision = out.precision();
  Printer printer{out, values, tensor.shape(), tensor.numel() > kPrintAll,
                  is_floating(tensor.dtype())};
  printer.axis(0, 0, tensor.numel());
  out.flags(flags);
  out.precision(precision);
  return out << " " << describe(tensor);
}

}  // namespace tenon
