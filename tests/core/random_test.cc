#include "tenon/core/random.h"

#include <catch2/catch.hpp>
#include <set>

#include "tenon/core/rank_context.h"

namespace tenon {
namespace {

using Block = std::array<uint32_t, 4>;

TEST_CASE("philox: known answers of Random123") {
  CHECK(philox(0, 0, 0) == Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const uint64_t all = ~uint64_t{0};
  CHECK(philox(all, all, all) == Block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 (digits of pi).
  CHECK(philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
        Block{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("philox: seed, stream and block each change every number") {
  const Block base = philox(1, 2, 3);
  for (const Block& other : {philox(2, 2, 3), philox(1, 3, 3), philox(1, 2, 4)}) {
    for (size_t i = 0; i < 4; ++i) CHECK(base[i] != other[i]);
  }
}

TEST_CASE("philox: uniform numbers stay below 1 and reach 0") {
  CHECK(uniform_from_bits(0) == 0.0f);
  CHECK(uniform_from_bits(0xffu) == 0.0f);
  CHECK(uniform_from_bits(0x100u) == 0x1p-24f);
  CHECK(uniform_from_bits(~0u) == 1.0f - 0x1p-24f);
}

TEST_CASE("generator: reservations do not overlap and continue from a saved state") {
  Generator generator(7, 5);
  const PhiloxKey first = generator.reserve(10);
  const PhiloxKey second = generator.reserve(1);
  const PhiloxKey third = generator.reserve(0);
  CHECK(first.seed == 7);
  CHECK(first.stream == 5);
  CHECK(first.offset == 0);
  CHECK(second.offset == 3);
  CHECK(third.offset == 4);
  const PhiloxKey saved = generator.state();
  CHECK(generator.reserve(8).offset == 4);
  generator.set_state(saved);
  CHECK(generator.reserve(8).offset == 4);
}

TEST_CASE("rank context: seeds give one init stream and a dropout stream per rank") {
  std::set<uint64_t> streams;
  for (int rank = 0; rank < 3; ++rank) {
    RankContext context(rank, 3);
    context.seed(42);
    CHECK(context.init.state().seed == 42);
    CHECK(context.init.state().stream == 0);
    CHECK(context.dropout.state().seed == 42);
    streams.insert(context.dropout.state().stream);
    context.dropout.reserve(100);
    context.seed(42);
    CHECK(context.dropout.state().offset == 0);
  }
  CHECK(streams.size() == 3);
  CHECK_FALSE(streams.contains(0));
}

}  // namespace
}  // namespace tenon
