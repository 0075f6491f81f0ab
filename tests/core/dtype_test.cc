#include "tenon/core/dtype.h"

#include <catch2/catch.hpp>

#include "tenon/core/check.h"
#include "tenon/core/device.h"
#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/kernel_slot.h"

namespace tenon {
namespace {

using Catch::Contains;

TEST_CASE("dtype: every dtype has a name that leads back to it, and the size of its C++ type") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(dtype_from_name(name_of(dtype)) == dtype);
    CHECK(str(dtype) == name_of(dtype));
    dispatch_all(dtype, "test", [&]<class T>() {
      CHECK(sizeof(T) == size_of(dtype));
      CHECK(dtype_of<T> == dtype);
    });
  }
}

TEST_CASE("dtype: an unknown name is an error that lists the valid ones") {
  CHECK_THROWS_WITH(dtype_from_name("float"),
                    "[dtype] unknown dtype: given 'float', wanted one of f32, f64, f16, bf16, i64, "
                    "i32, u8, bool");
}

TEST_CASE("dtype: floating types compute in f32, f64 in itself") {
  CHECK(compute_dtype(DType::f16) == DType::f32);
  CHECK(compute_dtype(DType::bf16) == DType::f32);
  CHECK(compute_dtype(DType::f32) == DType::f32);
  CHECK(compute_dtype(DType::f64) == DType::f64);
  CHECK(compute_dtype(DType::i32) == DType::i32);
  CHECK(is_floating(DType::bf16));
  CHECK_FALSE(is_floating(DType::i64));
  CHECK_FALSE(is_floating(DType::boolean));
}

TEST_CASE("dispatch: a dtype outside the list names the op and the dtypes it takes") {
  int calls = 0;
  dispatch_floating(DType::bf16, "exp", [&]<class T>() { calls += std::is_same_v<T, BFloat16>; });
  dispatch_integral(DType::u8, "sum", [&]<class T>() { calls += std::is_same_v<T, uint8_t>; });
  dispatch_numeric(DType::i32, "max", [&]<class T>() { calls += std::is_same_v<T, int32_t>; });
  CHECK(calls == 3);
  CHECK_THROWS_WITH(dispatch_floating(DType::i64, "exp", []<class T>() {}),
                    "[exp] unsupported dtype: given i64, wanted one of f32, f64, f16, bf16");
  CHECK_THROWS_WITH(dispatch_numeric(DType::boolean, "sum", []<class T>() {}),
                    Contains("[sum] unsupported dtype: given bool"));
}

TEST_CASE("kernel slot: an empty slot is an error that names op and device") {
  static KernelSlot<void(int, int&)> slot{"twice"};
  int result = 0;
  CHECK_FALSE(slot.filled(DeviceType::cpu));
  CHECK_THROWS_WITH(slot(DeviceType::cpu, 2, result), "[twice] no cpu kernel in this build");
  slot.set(DeviceType::cpu, [](int x, int& y) { y = 2 * x; });
  slot(DeviceType::cpu, 21, result);
  CHECK(result == 42);
  CHECK(slot.filled(DeviceType::cpu));
  CHECK_FALSE(slot.filled(DeviceType::cuda));
  CHECK_THROWS_WITH(slot(DeviceType::cuda, 2, result), "[twice] no cuda kernel in this build");
}

TEST_CASE("errors: the text has its form and the kind its exit code") {
  try {
    TENON_CHECK(1 > 2, "op", "what: given ", 1, ", wanted ", 2.5);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "[op] what: given 1, wanted 2.5");
    CHECK(error.exit_code() == 1);
  }
  CHECK(Error("x", ErrorKind::usage).exit_code() == 2);
  CHECK(Error("x", ErrorKind::peer_lost).exit_code() == 3);
  CHECK(Error("x", ErrorKind::bad_data).exit_code() == 4);
  CHECK_THROWS_WITH([] { TENON_ASSERT(1 == 2); }(), Contains("1 == 2 does not hold") &&
                                                        Contains("dtype_test.cc") &&
                                                        Contains("bug in tenon"));
}

TEST_CASE("devices print as people write them") {
  CHECK(str(kCpu) == "cpu");
  CHECK(str(Device{DeviceType::cuda, 3}) == "cuda:3");
}

}  // namespace
}  // namespace tenon
