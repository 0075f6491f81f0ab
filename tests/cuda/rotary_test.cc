// Rotary embedding on the GPU against its definition: packed and barely aligned memory, heads that
// are copied, results in place.
#include "tenon/kernels/rotary.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

std::vector<double> turned(const Tensor& x, const Tensor& cosines, const Tensor& sines,
                           const kernels::RotaryParams& params) {
  const std::vector<double> values = x.to_vector(), c = cosines.to_vector(), s = sines.to_vector();
  std::vector<double> result = values;
  const int64_t heads = x.dim(2), width = x.dim(3), half = width / 2;
  for (int64_t row = 0; row < x.numel() / width; ++row) {
    if (row % heads >= params.heads) continue;
    const int64_t position = row / heads % x.dim(1);
    for (int64_t i = 0; i < half; ++i) {
      const auto at = static_cast<size_t>(position * half + i);
      const auto a = static_cast<size_t>(row * width + i), b = a + static_cast<size_t>(half);
      const double sine = params.inverse ? -s[at] : s[at];
      result[a] = values[a] * c[at] - values[b] * sine;
      result[b] = values[b] * c[at] + values[a] * sine;
    }
  }
  return result;
}

void check(const Pair& x, Pair out, const kernels::RotaryParams& params) {
  INFO(describe(x.cuda) << " strides " << x.cuda.strides() << " offset " << x.cuda.offset()
                        << " into strides " << out.cuda.strides() << ", heads " << params.heads);
  const Shape table{x.cpu.dim(1), x.cpu.dim(3) / 2};
  const DType compute = compute_dtype(x.cpu.dtype());
  const Pair cosines(table, compute, 7), sines(table, compute, 8);
  const std::vector<double> wanted = turned(x.cpu, cosines.cpu, sines.cpu, params);
  kernels::rotary(DeviceType::cuda, x.cuda, cosines.cuda, sines.cuda, out.cuda, params);
  CHECK(max_error(out.cuda.to_vector(), wanted) < tolerance(x.cpu.dtype()));
}

}  // namespace

TEST_CASE("cuda rotary: heads of every width, and parts of a packed tensor") {
  for (const DType dtype : kFloating) {
    for (const int64_t width : {2, 6, 16, 48, 128}) {
      const Shape shape{2, 5, 7, width};
      for (const int64_t heads : {0, 3, 7}) {
        for (const bool inverse : {false, true}) {
          check(Pair(shape, dtype, 1), Pair(shape, dtype, 2), {heads, inverse});
        }
      }
      for (const int64_t offset : {0, 1, 8}) {
        const Pair store({2 * 5 * 9 * width + 8}, dtype, 1);
        const Pair part = store.view(shape, {5 * 9 * width, 9 * width, width, 1}, offset);
        check(part, Pair(shape, dtype, 2), {7});
        const Strides heads_first{7 * 5 * width, width, 5 * width, 1};
        check(part, Pair(shape, dtype, 2).view(shape, heads_first), {5});
        check(part, part, {4});  // changes `store`
      }
    }
  }
}

TEST_CASE("cuda rotary: nothing to turn") {
  for (const Shape& shape : {Shape{0, 3, 2, 4}, Shape{2, 0, 2, 4}, Shape{2, 3, 0, 4}}) {
    const Pair x(shape, DType::f32, 1);
    check(x, x, {shape[2]});
  }
}

}  // namespace tenon
