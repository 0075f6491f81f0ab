#include "tenon/tools/op_bench.h"

#include <algorithm>
#include <random>

#include "tenon/core/factory.h"
#include "tenon/kernels/random.h"

namespace tenon::tools {

Shape OpSetup::rows() const { return {std::max<int64_t>(size / kRow, 1), kRow}; }

Tensor OpSetup::random(const Shape& shape, DType type) const {
  Tensor result = empty(shape, {.dtype = type});
  kernels::uniform(result.device().type, result, -1, 1, {});
  return result;
}

Tensor OpSetup::blank(const Shape& shape, DType type) const {
  return zeros(shape, {.dtype = type});
}

Tensor OpSetup::state(const Shape& shape) const { return blank(shape, compute_dtype(dtype)); }

Tensor OpSetup::image(const Shape& shape) const {
  const int64_t c = shape[1], w = shape[3];
  return random(shape).as_strided(shape, {c * shape[2] * w, 1, c * w, c});
}

Tensor OpSetup::ids(int64_t count, int64_t limit) const {
  std::mt19937_64 generator(1);
  std::uniform_int_distribution<int64_t> draw(0, limit - 1);
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return draw(generator); });
  return from_data(values, {count});
}

bool OpEntry::exists_for(DType dtype) const {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

OpRun moves(const Shape& shape, std::initializer_list<Tensor> touched, std::function<void()> run) {
  double bytes = 0;
  for (const Tensor& tensor : touched) bytes += static_cast<double>(tensor.nbytes());
  return {str(shape), bytes, false, std::move(run)};
}

OpRun computes(std::string shape, double flops, std::function<void()> run) {
  return {std::move(shape), flops, true, std::move(run)};
}

}  // namespace tenon::tools
