#include "tenon/core/parallel.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/core/factory.h"

namespace tenon {
namespace {

constexpr int64_t kMuchWork = int64_t{1} << 30;

using Parts = std::vector<std::pair<int64_t, int64_t>>;

Parts parts_of(int64_t count, int64_t work, int64_t align) {
  Parts parts;
  std::mutex mutex;
  parallel_for(
      count, work,
      [&](int64_t begin, int64_t end) {
        const std::lock_guard lock(mutex);
        parts.emplace_back(begin, end);
      },
      align);
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST_CASE("parallel_for: the parts are exactly the range, at multiples of the alignment") {
  RankContext context;
  const RankContextScope scope(context);
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (const int64_t count : {1, 2, 3, 15, 16, 17, 100, 1001}) {
      for (const int64_t align : {1, 4, 16}) {
        int64_t next = 0;
        for (const auto& [begin, end] : parts_of(count, kMuchWork, align)) {
          REQUIRE(begin == next);
          REQUIRE(begin < end);
          REQUIRE((end == count || end % align == 0));
          next = end;
        }
        REQUIRE(next == count);
      }
    }
  }
  CHECK(parts_of(0, kMuchWork, 1).empty());
  CHECK(parts_of(-1, kMuchWork, 1).empty());
}

TEST_CASE("parallel_for: little work stays on the calling thread") {
  RankContext context;
  const RankContextScope scope(context);
  set_num_threads(2);
  const auto caller = std::this_thread::get_id();
  parallel_for(100, kParallelBytes - 1, [&](int64_t begin, int64_t end) {
    CHECK(begin == 0);
    CHECK(end == 100);
    CHECK(std::this_thread::get_id() == caller);
  });
}

TEST_CASE("parallel_for: an exception of any part reaches the caller, and the next loop works") {
  RankContext context;
  const RankContextScope scope(context);
  set_num_threads(3);
  for (const int64_t bad : {0, 50, 99}) {
    CHECK_THROWS_WITH(parallel_for(100, kMuchWork,
                                   [&](int64_t begin, int64_t end) {
                                     if (begin <= bad && bad < end) fail("part", "element ", bad);
                                   }),
                      str("[part] element ", bad));
  }
  CHECK_THROWS_AS(
      parallel_for(100, kMuchWork, [](int64_t, int64_t) { fail("part", "all of them"); }), Error);
  CHECK_FALSE(parts_of(100, kMuchWork, 1).empty());
}

TEST_CASE("parallel_for: an inner loop is whole on the thread of its part") {
  RankContext context;
  const RankContextScope scope(context);
  set_num_threads(2);
  std::vector<int> sums(8, 0);
  parallel_for(8, kMuchWork, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parallel_for(10, kMuchWork, [&, i](int64_t inner_begin, int64_t inner_end) {
        sums[static_cast<size_t>(i)] += static_cast<int>(inner_end - inner_begin);
      });
    }
  });
  CHECK(sums == std::vector<int>(8, 10));
}

TEST_CASE("parallel_for: its threads belong to the caller's rank") {
  RankContext context(5, 8);
  const RankContextScope scope(context);
  set_num_threads(3);
  std::atomic<int> strangers{0};
  parallel_for(3, kMuchWork, [&](int64_t, int64_t) {
    if (&rank_context() != &context) ++strangers;
    const Storage counted(64, kCpu, Category::other);
  });
  CHECK(strangers == 0);
  CHECK(context.memory->peak(Category::other) >= 64);
}

TEST_CASE("rank context: scopes nest and each thread has its own") {
  RankContext& process = rank_context();
  RankContext one(1, 3), two(2, 3);
  {
    const RankContextScope outer(one);
    CHECK(&rank_context() == &one);
    {
      const RankContextScope inner(two);
      CHECK(rank_context().rank() == 2);
      CHECK(rank_context().ranks() == 3);
    }
    CHECK(&rank_context() == &one);
    RankContext* seen_before = nullptr;
    RankContext* seen_within = nullptr;
    std::thread([&] {
      seen_before = &rank_context();
      const RankContextScope inherited(two);
      seen_within = &rank_context();
    }).join();
    CHECK(seen_before == &process);
    CHECK(seen_within == &two);
    CHECK(&rank_context() == &one);
  }
  CHECK(&rank_context() == &process);
}

TEST_CASE("rank context: a scope's number of threads ends with it") {
  const int before = num_threads();
  {
    RankContext context;
    context.threads = 1;
    const RankContextScope scope(context);
    CHECK(num_threads() == 1);
    RankContext unset;
    const RankContextScope inner(unset);
    CHECK(num_threads() == 1);  // what the thread has
  }
  CHECK(num_threads() == before);
  CHECK_THROWS_WITH(set_num_threads(0),
                    "[threads] wrong number of threads: given 0, wanted at least 1");
}

}  // namespace
}  // namespace tenon
