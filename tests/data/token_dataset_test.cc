#include "tenon/nn/data/token_dataset.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "tenon/nn/data/permutation.h"
#include "tenon/nn/data/token_file.h"
#include "tenon/nn/data/token_loader.h"
#include "tenon/nn/data/window_sampler.h"
#include "tenon/tests/support/scratch.h"

using namespace tenon;
using Catch::Matchers::Contains;
using tenon::testing::bad_data_error_of;
using tenon::testing::error_of;

namespace {

using Offsets = std::vector<int64_t>;

// Tokens 100, 101, …
Tokens counting(int64_t size) {
  std::vector<int32_t> tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 100);
  return Tokens(tokens, "corpus.txt");
}

TokenDataset dataset(int64_t size) { return TokenDataset(counting(size)); }

void append(Offsets& all, const Offsets& more) { all.insert(all.end(), more.begin(), more.end()); }

std::vector<WindowSampler> samplers(const TokenDataset& data, int64_t batch, int ranks) {
  std::vector<WindowSampler> result;
  for (int rank = 0; rank < ranks; ++rank) {
    result.emplace_back(data, WindowOptions{batch, 16, rank, ranks, 7});
  }
  return result;
}

// The windows of one step of all ranks, rank after rank.
Offsets joined(std::vector<WindowSampler>& ranks) {
  Offsets all;
  for (WindowSampler& rank : ranks) append(all, rank.next().offsets);
  return all;
}

}  // namespace

TEST_CASE("a batch holds windows and the tokens that follow") {
  const TokenDataset data = dataset(10);
  const TokenBatch batch = data.batch(Offsets{0, 6, 2}, 3);
  CHECK(batch.tokens.shape() == Shape{3, 3});
  CHECK(batch.tokens.dtype() == DType::i64);
  CHECK(batch.tokens.to_vector() ==
        std::vector<double>{100, 101, 102, 106, 107, 108, 102, 103, 104});
  CHECK(batch.targets.to_vector() ==
        std::vector<double>{101, 102, 103, 107, 108, 109, 103, 104, 105});
  CHECK(data.batch({}, 3).targets.shape() == Shape{0, 3});
  CHECK(data.targets() == 9);
}

TEST_CASE("windows outside the data are refused") {
  const TokenDataset data = dataset(10);
  CHECK_THAT(error_of([&] { data.batch(Offsets{7}, 3); }),
             Contains("corpus.txt: no such tokens: given 4 from 7 on, there are 10"));
  CHECK_THAT(error_of([&] { data.batch(Offsets{-1}, 3); }), Contains("from -1 on"));
  CHECK_THAT(error_of([&] { data.batch(Offsets{INT64_MAX}, 3); }), Contains("no such tokens"));
  CHECK_THAT(error_of([&] { data.batch(Offsets{0}, 0); }), Contains("given 0, wanted 1 to 9"));
  CHECK_THAT(error_of([&] { data.batch(Offsets{0}, INT64_MAX); }), Contains("wanted 1 to 9"));
}

TEST_CASE("data is split as nanoGPT splits it") {
  for (const int64_t size : {0, 1, 2, 9, 10, 11, 65, 1115394}) {
    const TokenSplit split = split_tokens(counting(size));
    CHECK(split.train.size() == static_cast<int64_t>(0.9 * static_cast<double>(size)));
    CHECK(split.train.size() + split.validation.size() == size);
  }
  const TokenSplit split = split_tokens(counting(20));
  CHECK(split.train.batch(Offsets{16}, 1).targets.item<int64_t>() == 117);
  CHECK(split.validation.batch(Offsets{0}, 1).tokens.item<int64_t>() == 118);
  CHECK(split.train.name() == "corpus.txt, the first 18 to train on");
  CHECK(split_tokens(counting(5), 1).validation.size() == 0);
  CHECK(split_tokens(counting(5), 0).train.size() == 0);
  CHECK_THAT(error_of([] { split_tokens(counting(5), 1.5); }), Contains("given 1.5"));
}

TEST_CASE("step k of N ranks uses the windows of step k of one rank with N times the batch") {
  const TokenDataset data = dataset(1000);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int64_t batch : {1, 2, 5}) {
      std::vector<WindowSampler> many = samplers(data, batch, ranks);
      std::vector<WindowSampler> one = samplers(data, batch * ranks, 1);
      CHECK(many[0].steps_per_epoch() == one[0].steps_per_epoch());
      for (int k = 0; k < 10; ++k) CHECK(joined(many) == joined(one));
      CHECK(many[0].position() == 10 * batch * ranks);
    }
  }
}

TEST_CASE("a restored position continues exactly, with another batch and number of ranks too") {
  const TokenDataset data = dataset(1000);
  std::vector<WindowSampler> first = samplers(data, 3, 2);
  for (int k = 0; k < 5; ++k) joined(first);
  const int64_t position = first[0].position();
  CHECK(position == 30);
  std::vector<WindowSampler> same = samplers(data, 3, 2), other = samplers(data, 4, 3);
  for (WindowSampler& rank : same) rank.set_position(position);
  for (WindowSampler& rank : other) rank.set_position(position);
  const WindowStep peek = WindowSampler(same[1]).next();
  CHECK(peek.position == 30);
  CHECK(peek.global == 6);
  Offsets old, resumed, changed;
  for (int k = 0; k < 4; ++k) append(old, joined(first));
  for (int k = 0; k < 4; ++k) append(resumed, joined(same));
  for (int k = 0; k < 2; ++k) append(changed, joined(other));
  CHECK(resumed == old);
  CHECK(changed == old);
  CHECK_THAT(error_of([&] { first[0].set_position(-1); }), Contains("bad position: given -1"));
}

TEST_CASE("a permutation holds every number below its size once, at any size") {
  for (uint64_t size = 1; size < 300; ++size) {
    const Permutation order(size, 5, size);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(order[i]);
    CHECK(seen.size() == size);
    CHECK(*seen.rbegin() == size - 1);
  }
  CHECK(Permutation(uint64_t{1} << 40, 1, 2)[123] < uint64_t{1} << 40);
}

TEST_CASE("a permutation brings each number to each place about equally often") {
  std::map<std::pair<uint64_t, uint64_t>, int> count;
  for (uint64_t stream = 0; stream < 6000; ++stream) {
    const Permutation order(6, 1, stream);
    for (uint64_t i = 0; i < 6; ++i) ++count[{i, order[i]}];
  }
  CHECK(count.size() == 36);
  for (const auto& [where, times] : count) CHECK(std::abs(times - 1000) < 140);
}

TEST_CASE("an epoch's windows share no target and leave less than two windows out") {
  for (const int64_t length : {1, 7, 16}) {
    const TokenDataset data = dataset(1000);
    const int64_t windows = std::max<int64_t>(1000 / length - 1, 1);
    WindowSampler sampler(data, {.batch = windows, .length = length, .seed = 3});
    std::set<int64_t> firsts;
    for (int epoch = 0; epoch < 5; ++epoch) {
      Offsets offsets = sampler.next().offsets;
      CHECK(!std::is_sorted(offsets.begin(), offsets.end()));
      std::sort(offsets.begin(), offsets.end());
      for (size_t i = 1; i < offsets.size(); ++i) CHECK(offsets[i] == offsets[i - 1] + length);
      CHECK(offsets.front() < 2 * length);
      CHECK(offsets.back() + length <= data.targets());
      CHECK(offsets.back() + 3 * length > data.targets());
      firsts.insert(offsets.front());
    }
    CHECK((length == 1 || firsts.size() > 2));
  }
}

TEST_CASE("random windows begin everywhere that one fits, about equally often") {
  const TokenDataset data = dataset(9);  // of length 5: one in an epoch
  WindowSampler sampler(data, {.batch = 4000, .length = 5, .seed = 3});
  std::map<int64_t, int> count;
  for (const int64_t offset : sampler.next().offsets) ++count[offset];
  CHECK(count.size() == 4);  // 0, 1, 2, 3: 9 - 5 places, as nanoGPT has them
  CHECK(count.begin()->first == 0);
  for (const auto& [offset, times] : count) CHECK(std::abs(times - 1000) < 140);
  // Just one window fits.
  const TokenDataset tight = dataset(6);
  CHECK(WindowSampler(tight, {.batch = 3, .length = 5}).next().offsets == Offsets{0, 0, 0});
}

TEST_CASE("seeds have windows of their own") {
  const TokenDataset data = dataset(100000);
  const auto first = [&](uint64_t seed) {
    return WindowSampler(data, {.batch = 20, .length = 8, .seed = seed}).next().offsets;
  };
  CHECK(first(1) == first(1));
  CHECK(first(1) != first(2));
}

TEST_CASE("evaluation covers every target exactly once for any number of ranks") {
  for (const int64_t size : {2, 3, 8, 9, 10, 17, 64, 65, 100}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int64_t batch : {1, 3}) {
        CAPTURE(size, ranks, batch);
        const TokenDataset data = dataset(size);
        std::vector<double> targets;
        for (int rank = 0; rank < ranks; ++rank) {
          const SequentialWindows windows(
              data, {.batch = batch, .length = 8, .rank = rank, .ranks = ranks});
          for (int64_t i = 0; i < windows.steps(); ++i) {
            const WindowStep step = windows.step(i);
            CHECK(step.local() <= batch);
            const std::vector<double> more =
                data.batch(step.offsets, step.length).targets.to_vector();
            targets.insert(targets.end(), more.begin(), more.end());
          }
        }
        std::sort(targets.begin(), targets.end());
        std::vector<double> expected(static_cast<size_t>(size - 1));
        std::iota(expected.begin(), expected.end(), 101);
        CHECK(targets == expected);
      }
    }
  }
}

TEST_CASE("ranks evaluate in the same number of steps of the same length") {
  const TokenDataset data = dataset(8 * 11 + 4);
  const WindowOptions options{.batch = 2, .length = 8, .rank = 0, .ranks = 3};
  const SequentialWindows windows(data, options);
  REQUIRE(windows.steps() == 3);  // 6 windows, 5 windows, one of length 3
  const std::vector<int64_t> global{6, 5, 1}, length{8, 8, 3}, position{0, 6, 11};
  for (int64_t i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    int64_t local = 0;
    for (int rank = 0; rank < 3; ++rank) {
      WindowOptions mine = options;
      mine.rank = rank;
      const WindowStep step = SequentialWindows(data, mine).step(i);
      CHECK(step.global == global[at]);
      CHECK(step.length == length[at]);
      CHECK(step.position == position[at]);
      local += step.local();
    }
    CHECK(local == global[at]);
  }
  CHECK_THAT(error_of([&] { windows.step(3); }), Contains("given 3, there are 3"));
}

TEST_CASE("data too short for a context is named with its length and what is wanted") {
  for (const int64_t size : {0, 1, 8}) {
    const TokenDataset data = dataset(size);
    CHECK_THAT(bad_data_error_of([&] { WindowSampler(data, {.length = 8}); }),
               Contains("corpus.txt: too short for a context of 8: given ") &&
                   Contains(size == 1 ? "1 token, wanted more than 8" : "wanted more than 8"));
  }
  const TokenSplit split = split_tokens(counting(20));
  CHECK_THAT(bad_data_error_of([&] { WindowSampler(split.validation, {.length = 64}); }),
             Contains("the rest to validate on: too short for a context of 64: given 2 tokens"));
  for (const int64_t size : {0, 1}) {
    CHECK_THAT(bad_data_error_of([&] { SequentialWindows(dataset(size), {.length = 8}); }),
               Contains("wanted more than 1"));
  }
}

TEST_CASE("bad arguments of windows are named") {
  const TokenDataset data = dataset(100);
  CHECK_THAT(error_of([&] { WindowSampler(data, {.batch = 0}); }), Contains("bad batch: given 0"));
  CHECK_THAT(error_of([&] { WindowSampler(data, {.length = 0}); }),
             Contains("bad length: given 0"));
  CHECK_THAT(error_of([&] { WindowSampler(data, {.rank = 2, .ranks = 2}); }),
             Contains("given rank 2 of 2"));
  CHECK_THAT(error_of([&] { SequentialWindows(data, {.ranks = 0}); }), Contains("bad rank"));
  CHECK_THAT(error_of([&] { SequentialWindows(data, {.length = -5}); }), Contains("bad length"));
}

TEST_CASE("a loader goes from a file to batches and resumes") {
  const tenon::testing::ScratchDirectory directory;
  const std::string path = directory.file("train.bin");
  std::vector<int32_t> tokens(500);
  std::iota(tokens.begin(), tokens.end(), 0);
  write_token_file(path, tokens);
  const WindowOptions options{.batch = 4, .length = 10, .rank = 1, .ranks = 2, .seed = 5};
  TokenLoader loader(path, options, {.vocab_size = 500});
  loader.next();
  const int64_t position = loader.position();
  const TokenBatch batch = loader.next();
  CHECK(batch.tokens.shape() == Shape{4, 10});
  CHECK(batch.targets.to_vector()[0] == batch.tokens.to_vector()[0] + 1);
  TokenLoader resumed(path, options);
  resumed.set_position(position);
  CHECK(resumed.next().tokens.to_vector() == batch.tokens.to_vector());
  CHECK_THAT(bad_data_error_of([&] { TokenLoader(path, options, {.vocab_size = 499}); }),
             Contains("token 499 at place 499"));
}
