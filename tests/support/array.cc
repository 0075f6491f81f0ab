#include "tenon/tests/support/array.h"

#include "tenon/core/check.h"

namespace tenon::testing {

size_t Array::place(const Dims& index) const {
  TENON_ASSERT(index.size() == shape.size());
  int64_t at = 0;
  for (int i = 0; i < shape.size(); ++i) {
    TENON_ASSERT(index[i] >= 0 && index[i] < shape[i]);
    at = at * shape[i] + index[i];
  }
  return static_cast<size_t>(at);
}

double Array::broadcast(const Dims& index) const {
  Dims own = shape;
  const int offset = index.size() - shape.size();
  for (int i = 0; i < shape.size(); ++i) own[i] = shape[i] == 1 ? 0 : index[offset + i];
  return values[place(own)];
}

void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body) {
  Dims index = shape;
  for (int64_t at = 0; at < shape.numel(); ++at) {
    int64_t rest = at;
    for (int i = shape.size() - 1; i >= 0; --i) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    body(index);
  }
}

Array map(const Array& x, const std::function<double(double)>& f) {
  Array y = x;
  for (double& value : y.values) value = f(value);
  return y;
}

Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  Array y(broadcast_shapes("zip", a.shape, b.shape));
  for_each_index(y.shape, [&](const Dims& i) { y[i] = f(a.broadcast(i), b.broadcast(i)); });
  return y;
}

}  // namespace tenon::testing
