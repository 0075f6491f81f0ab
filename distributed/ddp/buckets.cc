#include "tenon/distributed/ddp/buckets.h"

#include <algorithm>
#include <tuple>

#include "tenon/core/check.h"

namespace tenon {
namespace {

size_t aligned(size_t bytes) {
  return (bytes + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
}

// A bucket that may still take parameters, and the position in the order of its last one.
struct Open {
  Bucket bucket;
  size_t last = 0;
};

}  // namespace

BucketPlan plan_buckets(const std::vector<ParameterSpec>& specs, const std::vector<size_t>& order,
                        const BucketCaps& caps) {
  std::vector<Open> open, closed;
  for (size_t position = 0; position < order.size(); ++position) {
    const ParameterSpec& spec = specs.at(order[position]);
    auto found = std::find_if(open.begin(), open.end(), [&](const Open& candidate) {
      return candidate.bucket.dtype == spec.dtype && candidate.bucket.device == spec.device;
    });
    if (found == open.end()) {
      open.push_back({});
      found = std::prev(open.end());
      found->bucket.dtype = spec.dtype;
      found->bucket.device = spec.device;
    }
    Bucket& bucket = found->bucket;
    bucket.slices.push_back({order[position], bucket.bytes});
    bucket.bytes += aligned(static_cast<size_t>(spec.numel) * size_of(spec.dtype));
    found->last = position;
    if (bucket.bytes >= (closed.empty() ? caps.first : caps.other)) {
      closed.push_back(std::move(*found));
      open.erase(found);
    }
  }
  for (Open& rest : open) closed.push_back(std::move(rest));
  std::sort(closed.begin(), closed.end(),
            [](const Open& a, const Open& b) { return a.last < b.last; });

  BucketPlan plan;
  for (Open& entry : closed) {
    entry.bucket.offset = plan.bytes;
    for (BucketSlice& slice : entry.bucket.slices) slice.offset += plan.bytes;
    plan.bytes += entry.bucket.bytes;
    plan.buckets.push_back(std::move(entry.bucket));
  }
  return plan;
}

}  // namespace tenon
