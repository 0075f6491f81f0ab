// The numbers of a key are the CPU's: to the bit where no elementary function is involved.
#include "tenon/kernels/random.h"

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
constexpr PhiloxKey kKey{0x123456789abcdefu, 0xfedcba987654321u, (uint64_t{1} << 32) - 3};
constexpr int64_t kSizes[] = {0, 1, 3, 4, 5, 1023, 1024, 1027, 5001};

// `count` elements at an offset, so that they are aligned or not.
Pair part(int64_t count, DType dtype, int64_t offset) {
  return Pair({count + offset}, dtype, 9).view({count}, {1}, offset);
}

}  // namespace

TEST_CASE("cuda random: uniform and normal draw the CPU's numbers") {
  for (const DType dtype : kFloating) {
    for (const int64_t count : kSizes) {
      for (const int64_t offset : {0, 1}) {
        INFO(count << " of " << dtype << " at offset " << offset);
        Pair out = part(count, dtype, offset);
        kernels::uniform(DeviceType::cpu, out.cpu, -0.7, 1.9, kKey);
        kernels::uniform(DeviceType::cuda, out.cuda, -0.7, 1.9, kKey);
        CHECK(out.cuda.to_vector() == out.cpu.to_vector());
        kernels::normal(DeviceType::cpu, out.cpu, 0.5, 2, kKey);
        kernels::normal(DeviceType::cuda, out.cuda, 0.5, 2, kKey);
        CHECK(max_error(out.cuda.to_vector(), out.cpu.to_vector()) < tolerance(dtype));
      }
    }
  }
}

TEST_CASE("cuda random: dropout drops the CPU's elements, and so does its backward") {
  for (const DType dtype : kFloating) {
    for (const int64_t count : kSizes) {
      for (const double p : {0.0, 0.3, 1.0}) {
        const int64_t offset = count % 2;
        INFO(count << " of " << dtype << " p " << p);
        const Pair x = part(count, dtype, offset);
        Pair y = part(count, dtype, 0), dx = part(count, dtype, offset);
        Pair mask = part(count, DType::u8, 0);
        kernels::dropout(DeviceType::cpu, x.cpu, y.cpu, mask.cpu, p, kKey);
        kernels::dropout(DeviceType::cuda, x.cuda, y.cuda, mask.cuda, p, kKey);
        CHECK(y.cuda.to_vector() == y.cpu.to_vector());
        CHECK(mask.cuda.to_vector() == mask.cpu.to_vector());
        kernels::dropout_backward(DeviceType::cpu, x.cpu, mask.cpu, dx.cpu, p);
        kernels::dropout_backward(DeviceType::cuda, x.cuda, mask.cuda, dx.cuda, p);
        CHECK(dx.cuda.to_vector() == dx.cpu.to_vector());
      }
    }
  }
}

TEST_CASE("cuda random: dropout_backward takes gradients of any strides") {
  const Pair dy = Pair({30 * 41}, DType::f32, 1).view({30, 41}, {1, 30});
  Pair mask({30, 41}, DType::u8, 2), y({30, 41}, DType::f32, 3), dx({30, 41}, DType::f32, 4);
  kernels::dropout(DeviceType::cpu, y.cpu, dx.cpu, mask.cpu, 0.5, kKey);
  kernels::dropout(DeviceType::cuda, y.cuda, dx.cuda, mask.cuda, 0.5, kKey);
  kernels::dropout_backward(DeviceType::cpu, dy.cpu, mask.cpu, dx.cpu, 0.5);
  kernels::dropout_backward(DeviceType::cuda, dy.cuda, mask.cuda, dx.cuda, 0.5);
  CHECK(dx.cuda.to_vector() == dx.cpu.to_vector());
}

}  // namespace tenon
