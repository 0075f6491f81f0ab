#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <vector>

#include "tenon/nn/data/sampler.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::error_of;

namespace {

// The samples of one step of all ranks, rank after rank.
std::vector<int64_t> joined(std::vector<DistributedSampler>& ranks) {
  std::vector<int64_t> all;
  for (DistributedSampler& rank : ranks) {
    const SamplerStep step = rank.next();
    all.insert(all.end(), step.samples.begin(), step.samples.end());
  }
  return all;
}

std::vector<DistributedSampler> samplers(int64_t size, int64_t batch, int ranks, bool shuffle) {
  std::vector<DistributedSampler> result;
  for (int rank = 0; rank < ranks; ++rank) {
    result.emplace_back(size, SamplerOptions{batch, rank, ranks, 7, shuffle});
  }
  return result;
}

}  // namespace

TEST_CASE(
    "step k of N ranks uses exactly the samples of step k of one rank with N times the batch") {
  for (const int64_t size : {1, 5, 42, 85, 100}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      for (const int64_t batch : {1, 2, 5}) {
        CAPTURE(size, ranks, batch);
        std::vector<DistributedSampler> many = samplers(size, batch, ranks, true);
        std::vector<DistributedSampler> one = samplers(size, batch * ranks, 1, true);
        REQUIRE(many[0].steps_per_epoch() == one[0].steps_per_epoch());
        bool equal = true;
        for (int64_t k = 0; k < 2 * one[0].steps_per_epoch(); ++k) {
          equal = equal && joined(many) == joined(one);
        }
        CHECK(equal);
      }
    }
  }
}

TEST_CASE("an epoch partitions the samples exactly, in uneven cases too") {
  for (const bool shuffle : {true, false}) {
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const int64_t size = 31;
      std::vector<DistributedSampler> all = samplers(size, 4, ranks, shuffle);
      std::vector<int64_t> seen;
      for (int64_t k = 0; k < all[0].steps_per_epoch(); ++k) {
        const std::vector<int64_t> step = joined(all);
        seen.insert(seen.end(), step.begin(), step.end());
      }
      if (!shuffle) CHECK(std::is_sorted(seen.begin(), seen.end()));
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> expected(static_cast<size_t>(size));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(seen == expected);
      CHECK(all[0].position() == SamplerPosition{1, 0});
    }
  }
}

TEST_CASE("shares of the last step differ by at most one and scale the loss") {
  std::vector<DistributedSampler> ranks = samplers(17, 2, 7, true);
  joined(ranks);
  double scale = 0;
  std::vector<int64_t> shares;
  for (DistributedSampler& rank : ranks) {
    const SamplerStep step = rank.next();
    CHECK(step.global == 3);
    CHECK(step.ends_epoch);
    shares.push_back(step.local());
    scale += step.loss_scale();
  }
  CHECK(*std::max_element(shares.begin(), shares.end()) == 1);
  CHECK(std::count(shares.begin(), shares.end(), 0) == 4);
  CHECK(scale == Approx(7));  // full shares: 1 each
}

TEST_CASE("epochs and seeds have orders of their own") {
  DistributedSampler sampler(100, {.batch = 100, .seed = 7});
  const auto first = sampler.next().samples, second = sampler.next().samples;
  CHECK(first != second);
  CHECK(DistributedSampler(100, {.batch = 100, .seed = 8}).next().samples != first);
  CHECK(DistributedSampler(100, {.batch = 100, .seed = 7}).next().samples == first);
}

TEST_CASE("every sample comes first about equally often") {
  std::map<int64_t, int> count;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    ++count[DistributedSampler(4, {.batch = 4, .seed = seed}).next().samples[0]];
  }
  for (int64_t sample = 0; sample < 4; ++sample) CHECK(std::abs(count[sample] - 1000) < 140);
}

TEST_CASE("a restored position continues exactly") {
  const SamplerOptions options{.batch = 3, .rank = 1, .ranks = 2, .seed = 5};
  DistributedSampler sampler(20, options);
  for (int i = 0; i < 6; ++i) sampler.next();
  const SamplerPosition position = sampler.position();
  CHECK(position == SamplerPosition{1, 2});
  DistributedSampler resumed(20, options);
  resumed.set_position(position);
  for (int i = 0; i < 9; ++i) CHECK(resumed.next().samples == sampler.next().samples);
}

TEST_CASE("bad arguments of a sampler are named") {
  CHECK_THAT(error_of([] { DistributedSampler(0); }), Contains("number of samples: given 0"));
  CHECK_THAT(error_of([] { DistributedSampler(5, {.batch = 0}); }), Contains("batch: given 0"));
  CHECK_THAT(error_of([] { DistributedSampler(5, {.rank = 2, .ranks = 2}); }),
             Contains("given rank 2 of 2"));
  CHECK_THAT(error_of([] { DistributedSampler(5, {.ranks = 0}); }), Contains("bad rank"));
  DistributedSampler sampler(5, {.batch = 2});
  CHECK_THAT(error_of([&] { sampler.set_position({0, 3}); }), Contains("an epoch has 3 steps"));
}
