// The plan of buckets is a pure function.
#include <catch2/catch.hpp>

#include "tenon/distributed/ddp/buckets.h"

namespace tenon {
namespace {

std::vector<ParameterSpec> specs_of(const std::vector<int64_t>& sizes, DType dtype = DType::f32) {
  std::vector<ParameterSpec> specs;
  for (const int64_t size : sizes) specs.push_back({size, dtype, kCpu});
  return specs;
}

TEST_CASE("A bucket closes when it has reached its cap, the first one earlier") {
  const BucketPlan plan = plan_buckets(specs_of({16, 16, 16, 16, 16}), {4, 3, 2, 1, 0}, {64, 128});
  REQUIRE(plan.buckets.size() == 3);
  CHECK(plan.buckets[0].slices.size() == 1);
  CHECK(plan.buckets[0].slices[0].parameter == 4);
  CHECK(plan.buckets[1].slices.size() == 2);
  CHECK(plan.buckets[2].slices.size() == 2);
  CHECK(plan.bytes == 5 * 64);
}

TEST_CASE("Slices start at multiples of 64 bytes and buckets are consecutive") {
  const BucketPlan plan = plan_buckets(specs_of({1, 17, 33, 0, 5}), {0, 1, 2, 3, 4}, {100, 200});
  size_t offset = 0;
  for (const Bucket& bucket : plan.buckets) {
    CHECK(bucket.offset == offset);
    CHECK(bucket.bytes % kBucketAlignment == 0);
    for (const BucketSlice& slice : bucket.slices) {
      CHECK(slice.offset % kBucketAlignment == 0);
      CHECK(slice.offset >= bucket.offset);
      CHECK(slice.offset <= bucket.offset + bucket.bytes);
    }
    offset += bucket.bytes;
  }
  CHECK(plan.bytes == offset);
  CHECK(plan.bytes == 64 + 128 + 192 + 0 + 64);
}

TEST_CASE("The total size does not depend on the order") {
  const std::vector<ParameterSpec> specs = specs_of({3, 100, 7, 64, 1});
  CHECK(plan_buckets(specs, {0, 1, 2, 3, 4}, {64, 256}).bytes ==
        plan_buckets(specs, {3, 0, 4, 2, 1}, {300, 64}).bytes);
}

TEST_CASE("Each dtype has buckets of its own, in the order in which they are complete") {
  std::vector<ParameterSpec> specs = specs_of({16, 16, 16, 16});
  specs[1].dtype = specs[2].dtype = DType::f64;
  const BucketPlan plan = plan_buckets(specs, {3, 2, 1, 0}, {1 << 20, 1 << 20});
  REQUIRE(plan.buckets.size() == 2);
  CHECK(plan.buckets[0].dtype == DType::f64);
  CHECK(plan.buckets[0].bytes == 256);
  CHECK(plan.buckets[1].dtype == DType::f32);
  CHECK(plan.buckets[1].slices[0].parameter == 3);
  CHECK(plan.buckets[1].slices[1].parameter == 0);
}

TEST_CASE("A parameter larger than the cap is a bucket by itself") {
  const BucketPlan plan = plan_buckets(specs_of({1000, 1}), {0, 1}, {64, 64});
  REQUIRE(plan.buckets.size() == 2);
  CHECK(plan.buckets[0].slices.size() == 1);
}

TEST_CASE("Sizes are counted in 64 bits") {
  const BucketPlan plan = plan_buckets(specs_of({int64_t{3} << 31}), {0}, {64, 64});
  CHECK(plan.bytes == size_t{3} << 33);
}

}  // namespace
}  // namespace tenon
