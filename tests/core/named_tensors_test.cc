#include "tenon/core/named_tensors.h"

#include <catch2/catch.hpp>

#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"

namespace tenon {
namespace {

using Catch::Contains;
using Values = std::vector<double>;

TEST_CASE("named tensors: values are copied by name in any order and count as a change") {
  const Tensor a = zeros({2}), b = zeros({3}, {.dtype = DType::i64}), none = zeros({0});
  copy_named_tensors("load",
                     {{"b", arange(3)}, {"none", zeros({0})}, {"a", from_vector({1, 2}, {2})}},
                     {{"a", a}, {"b", b}, {"none", none}});
  CHECK(a.to_vector() == Values{1, 2});
  CHECK(b.to_vector() == Values{0, 1, 2});
  CHECK(a.version() == 1);
}

TEST_CASE("named tensors: one error lists everything that does not fit, and nothing is changed") {
  const Tensor a = zeros({2}), b = zeros({2}), c = zeros({2});
  const std::vector<NamedTensor> from{
      {"a", ones({2})}, {"b", ones({3})}, {"d", ones({1})}, {"a", ones({2})}};
  try {
    copy_named_tensors("load", from, {{"a", a}, {"b", b}, {"c", c}});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::bad_data);
    CHECK_THAT(error.what(), Contains("[load] the state does not fit:") &&
                                 Contains("given twice: a") &&
                                 Contains("missing: c, wanted f32 (2)") &&
                                 Contains("mismatched: b, given f32 (3), wanted f32 (2)") &&
                                 Contains("unexpected: d, f32 (1)"));
  }
  CHECK(a.to_vector() == Values{0, 0});
  CHECK_THROWS_WITH(
      copy_named_tensors("load", {{"a", ones({2}, {.dtype = DType::f64})}}, {{"a", a}}),
      Contains("mismatched: a, given f64 (2), wanted f32 (2)"));
  CHECK_THROWS_WITH(copy_named_tensors("load", {{"a", ones({1}).as_strided({2}, {0})}}, {{"a", a}}),
                    Contains("not contiguous: a"));
}

TEST_CASE("runtime: the cpu is there, its streams are complete at once") {
  CHECK(has_runtime(DeviceType::cpu));
  CHECK(runtime(DeviceType::cpu).device_count() == 1);
  const Stream stream = current_stream(kCpu);
  CHECK(stream.id == 0);
  wait_event(stream, record_event(stream));
  synchronize(kCpu);
  set_current_stream({kCpu, 3});
  CHECK(current_stream(kCpu).id == 3);
  set_current_stream(stream);
  CHECK(current_stream({DeviceType::cuda, 2}) == Stream{{DeviceType::cuda, 2}, 0});
  if (!has_runtime(DeviceType::cuda)) {
    CHECK_THROWS_WITH(zeros({2}, {.device = {DeviceType::cuda, 0}}),
                      Contains("no cuda device in this process"));
  }
}

}  // namespace
}  // namespace tenon
