// How parameters are grouped into buckets: a pure function, so that every rank gets the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenon/core/device.h"
#include "tenon/core/dtype.h"

namespace tenon {

struct ParameterSpec {
  int64_t numel = 0;
  DType dtype = DType::f32;
  Device device;
};

struct BucketCaps {
  size_t first = size_t{1} << 20;  // of the first bucket: small, so that communication starts early
  size_t other = size_t{25} << 20;
};

// A parameter's gradient within the flat storage of all buckets.
struct BucketSlice {
  size_t parameter = 0;  // index into the specs
  size_t offset = 0;     // in bytes, a multiple of kBucketAlignment
};
inline constexpr size_t kBucketAlignment = 64;

// Consecutive slices of one dtype and device that are reduced by one collective.
struct Bucket {
  std::vector<BucketSlice> slices;
  size_t offset = 0;  // in bytes
  size_t bytes = 0;   // a multiple of kBucketAlignment
  DType dtype = DType::f32;
  Device device;
};

struct BucketPlan {
  std::vector<Bucket> buckets;  // in the order in which they are launched
  size_t bytes = 0;             // of all; does not depend on the order of the parameters
};

// Fills buckets with the parameters `order` (indices into `specs`) one after another; a bucket
// closes when it has reached its cap, so it can exceed it by one parameter. Parameters of different
// dtype or device go to different buckets. Buckets are sorted by where their last parameter comes
// in `order`.
BucketPlan plan_buckets(const std::vector<ParameterSpec>& specs, const std::vector<size_t>& order,
                        const BucketCaps& caps);

}  // namespace tenon
