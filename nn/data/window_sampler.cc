#include "tenon/nn/data/window_sampler.h"

#include <algorithm>

#include "tenon/core/check.h"
#include "tenon/nn/data/permutation.h"
#include "tenon/nn/data/random_below.h"

namespace tenon {
namespace {

WindowOptions checked(WindowOptions options) {
  TENON_CHECK(options.batch > 0, "windows", "bad batch: given ", options.batch,
              ", wanted at least 1");
  TENON_CHECK(options.length > 0, "windows", "bad length: given ", options.length,
              ", wanted at least 1");
  TENON_CHECK(options.ranks > 0 && options.rank >= 0 && options.rank < options.ranks, "windows",
              "bad rank: given rank ", options.rank, " of ", options.ranks,
              ", wanted 0 <= rank < ranks");
  return options;
}

void check_size(const TokenDataset& data, int64_t context) {
  if (data.targets() >= context) return;
  throw Error(
      str("[windows] ", data.name(), ": too short for a context of ", context, ": given ",
          data.size(), data.size() == 1 ? " token" : " tokens", ", wanted more than ", context),
      ErrorKind::bad_data);
}

}  // namespace

WindowSampler::WindowSampler(const TokenDataset& data, WindowOptions options)
    : targets_(data.targets()),
      options_(checked(options)),
      windows_(std::max<int64_t>((targets_ + 1) / options.length - 1, 1)) {
  check_size(data, options.length);
}

int64_t WindowSampler::offset(int64_t number) const {
  const auto epoch = static_cast<uint64_t>(number / windows_);
  // The last place's last target is the last token.
  const auto places = static_cast<uint64_t>(targets_ - windows_ * options_.length + 1);
  const uint64_t first = random_below(places, options_.seed, kWindowStream, epoch);
  const Permutation order(static_cast<uint64_t>(windows_), options_.seed, kWindowOrders + epoch);
  return static_cast<int64_t>(first) +
         static_cast<int64_t>(order[static_cast<uint64_t>(number % windows_)]) * options_.length;
}

WindowStep WindowSampler::next() {
  WindowStep result{.offsets = {},
                    .length = options_.length,
                    .global = options_.batch * options_.ranks,
                    .position = position_};
  const int64_t first = position_ + options_.rank * options_.batch;
  for (int64_t i = first; i < first + options_.batch; ++i) {
    result.offsets.push_back(offset(i));
  }
  position_ += result.global;
  return result;
}

void WindowSampler::set_position(int64_t position) {
  TENON_CHECK(position >= 0, "windows", "bad position: given ", position, ", wanted 0 or more");
  position_ = position;
}

int64_t WindowSampler::steps_per_epoch() const {
  const int64_t targets_of_step = options_.batch * options_.ranks * options_.length;
  return (targets_ + targets_of_step - 1) / targets_of_step;
}

SequentialWindows::SequentialWindows(const TokenDataset& data, WindowOptions options)
    : options_(checked(options)),
      full_(data.targets() / options.length),
      rest_(data.targets() % options.length) {
  check_size(data, 1);
}

int64_t SequentialWindows::steps() const {
  return (full_ + global_batch() - 1) / global_batch() + (rest_ > 0 ? 1 : 0);
}

WindowStep SequentialWindows::step(int64_t index) const {
  TENON_CHECK(index >= 0 && index < steps(), "windows", "no such step: given ", index,
              ", there are ", steps());
  const int64_t begin = index * global_batch();
  if (begin >= full_) {
    WindowStep last{.offsets = {}, .length = rest_, .global = 1, .position = full_};
    if (options_.rank == 0) last.offsets = {full_ * options_.length};
    return last;
  }
  WindowStep result{.offsets = {},
                    .length = options_.length,
                    .global = std::min(global_batch(), full_ - begin),
                    .position = begin};
  // A full batch gives every rank `batch` by the same formula.
  const int64_t mine_begin = begin + result.global * options_.rank / options_.ranks;
  const int64_t mine_end = begin + result.global * (options_.rank + 1) / options_.ranks;
  for (int64_t i = mine_begin; i < mine_end; ++i) {
    result.offsets.push_back(i * options_.length);
  }
  return result;
}

}  // namespace tenon
