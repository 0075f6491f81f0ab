#include "tenon/core/storage.h"

#include <catch2/catch.hpp>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"

namespace tenon {
namespace {

using Catch::Contains;

MemoryCounters& counters() { return *rank_context().memory; }

// A source that counts, and fails on demand.
class CountingSource : public MemorySource {
 public:
  void* allocate(size_t bytes) override {
    if (fail_next) fail("source", "nothing left");
    ++taken;
    return ::operator new(bytes);
  }
  void deallocate(void* data, size_t) override {
    ++given_back;
    ::operator delete(data);
  }
  bool fail_next = false;
  int taken = 0, given_back = 0;
};

TEST_CASE("storage: keeps its identity while its memory comes and goes") {
  RankContext context;
  const RankContextScope scope(context);
  const Tensor x = full({4}, 1, {.category = Category::gather});
  x.bump_version();
  Storage& storage = *x.storage();
  storage.release();
  CHECK_FALSE(storage.materialized());
  CHECK(storage.bytes() == 16);
  CHECK(counters().live(Category::gather) == 0);
  CHECK_THROWS_WITH(x.data<float>(),
                    "[storage] read of released memory: 16 bytes of gather on cpu, wanted "
                    "materialized memory");
  CHECK(x.shape() == Shape{4});  // the description needs no memory
  storage.release();             // twice is once
  storage.materialize();
  void* const data = storage.data();
  storage.materialize();
  CHECK(storage.data() == data);
  CHECK(counters().live(Category::gather) == 16);
  CHECK(storage.version() == 1);  // neither changes values
  x.data<float>()[3] = 5;
  CHECK(x.to_vector()[3] == 5);
  storage.set_version(7);
  CHECK(x.version() == 7);
}

TEST_CASE("storage: memory comes from its source and goes back there") {
  const auto source = std::make_shared<CountingSource>();
  {
    Storage storage(8, kCpu, Category::other, source);
    CHECK(&storage.source() == source.get());
    storage.release();
    storage.materialize();
    CHECK(source->taken == 2);
  }
  CHECK(source->given_back == 2);
}

TEST_CASE("storage: a source that fails leaves the counters as they were") {
  RankContext context;
  const RankContextScope scope(context);
  const auto source = std::make_shared<CountingSource>();
  source->fail_next = true;
  CHECK_THROWS_WITH(Storage(8, kCpu, Category::other, source), "[source] nothing left");
  CHECK(counters().live() == 0);
}

TEST_CASE("storage: is counted for the rank that made it, wherever it dies") {
  RankContext one, other;
  std::shared_ptr<Storage> storage;
  {
    const RankContextScope scope(one);
    storage = std::make_shared<Storage>(100, kCpu, Category::bucket);
  }
  CHECK(one.memory->live(Category::bucket) == 100);
  const RankContextScope scope(other);
  storage.reset();
  CHECK(one.memory->live() == 0);
  CHECK(other.memory->peak() == 0);
}

TEST_CASE("memory counters: live and peak by category") {
  MemoryCounters memory;
  memory.add(Category::parameter, 100);
  memory.add(Category::gradient, 50);
  memory.subtract(Category::gradient, 50);
  memory.add(Category::gradient, 20);
  CHECK(memory.live(Category::parameter) == 100);
  CHECK(memory.live(Category::gradient) == 20);
  CHECK(memory.peak(Category::gradient) == 50);
  CHECK(memory.live() == 120);
  CHECK(memory.peak() == 150);
  memory.reset_peak();
  CHECK(memory.peak() == 120);
  CHECK(memory.peak(Category::gradient) == 20);
  CHECK_THAT(memory.table(), Contains("category") && Contains("parameter") && Contains("all"));
}

TEST_CASE("memory counters: the limit is an error with the table, and counts nothing") {
  MemoryCounters memory;
  memory.set_limit(100);
  memory.add(Category::parameter, 60);
  CHECK_THROWS_WITH(memory.add(Category::activation, 41),
                    Contains("[memory] limit reached: 41 bytes more of activation asked for, the "
                             "limit is 100 bytes in all") &&
                        Contains("live bytes") && Contains("gather"));
  CHECK(memory.live() == 60);
  CHECK(memory.peak() == 60);
  CHECK_NOTHROW(memory.add(Category::activation, 40));
  memory.set_limit(0);
  CHECK_NOTHROW(memory.add(Category::activation, 1000));
}

TEST_CASE("storage: a change of category moves its bytes, whatever the limit") {
  RankContext context;
  const RankContextScope scope(context);
  Storage storage(64, kCpu, Category::activation);
  context.memory->set_limit(10);
  storage.set_category(Category::parameter);
  CHECK(storage.category() == Category::parameter);
  CHECK(counters().live(Category::parameter) == 64);
  CHECK(counters().live(Category::activation) == 0);
  CHECK(counters().live() == 64);
  CHECK(counters().peak() == 64);
  storage.release();
  storage.set_category(Category::other);  // nothing to move
  CHECK(counters().live() == 0);
}

TEST_CASE("storage: a limit stops materialize and leaves the storage released") {
  RankContext context;
  const RankContextScope scope(context);
  Storage storage(64, kCpu, Category::gather);
  storage.release();
  context.memory->set_limit(63);
  CHECK_THROWS_WITH(storage.materialize(), Contains("limit reached"));
  CHECK_FALSE(storage.materialized());
  context.memory->set_limit(64);
  CHECK_NOTHROW(storage.materialize());
}

}  // namespace
}  // namespace tenon
