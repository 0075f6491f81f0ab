#include "tenon/nn/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tenon/core/check.h"
#include "tenon/nn/data/random_below.h"

namespace tenon {

DistributedSampler::DistributedSampler(int64_t size, SamplerOptions options)
    : size_(size), options_(options) {
  TENON_CHECK(size > 0, "sampler", "bad number of samples: given ", size, ", wanted at least 1");
  TENON_CHECK(options.batch > 0, "sampler", "bad batch: given ", options.batch,
              ", wanted at least 1");
  TENON_CHECK(options.ranks > 0 && options.rank >= 0 && options.rank < options.ranks, "sampler",
              "bad rank: given rank ", options.rank, " of ", options.ranks,
              ", wanted 0 <= rank < ranks");
}

int64_t DistributedSampler::steps_per_epoch() const {
  const int64_t global = options_.batch * options_.ranks;
  return (size_ + global - 1) / global;
}

void DistributedSampler::set_position(SamplerPosition position) {
  TENON_CHECK(position.epoch >= 0 && position.step >= 0 && position.step < steps_per_epoch(),
              "sampler", "bad position: given epoch ", position.epoch, ", step ", position.step,
              ", an epoch has ", steps_per_epoch(), " steps");
  position_ = position;
}

// Fisher and Yates.
void DistributedSampler::order_epoch(int64_t epoch) {
  if (ordered_epoch_ == epoch) return;
  order_.resize(static_cast<size_t>(size_));
  std::iota(order_.begin(), order_.end(), int64_t{0});
  ordered_epoch_ = epoch;
  if (!options_.shuffle) return;
  const uint64_t stream = kOrderStreams + static_cast<uint64_t>(epoch);
  for (size_t i = order_.size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[random_below(i + 1, options_.seed, stream, i)]);
  }
}

SamplerStep DistributedSampler::next() {
  order_epoch(position_.epoch);
  const int64_t begin = position_.step * options_.batch * options_.ranks;
  SamplerStep result;
  result.global = std::min(options_.batch * options_.ranks, size_ - begin);
  result.ranks = options_.ranks;
  result.position = position_;
  result.ends_epoch = begin + result.global == size_;
  // A full batch gives every rank `batch` by the same formula.
  const int64_t mine_begin = begin + result.global * options_.rank / options_.ranks;
  const int64_t mine_end = begin + result.global * (options_.rank + 1) / options_.ranks;
  result.samples.assign(order_.begin() + mine_begin, order_.begin() + mine_end);
  if (result.ends_epoch) {
    position_ = {position_.epoch + 1, 0};
  } else {
    ++position_.step;
  }
  return result;
}

}  // namespace tenon
