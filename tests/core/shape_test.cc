#include "tenon/core/shape.h"

#include <catch2/catch.hpp>

#include "tenon/core/check.h"

namespace tenon {
namespace {

using Catch::Contains;

TEST_CASE("shape: numel, text and comparison") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{3, 0, 2}.numel() == 0);
  CHECK(Shape{2, 3, 4}.numel() == 24);
  CHECK(str(Shape{}) == "()");
  CHECK(str(Shape{2, 3}) == "(2, 3)");
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
}

TEST_CASE("shape: insert, erase and the limit of dimensions") {
  Shape shape{1, 2, 3};
  shape.insert(0, 7);
  shape.insert(4, 9);
  shape.insert(2, 5);
  CHECK(shape == Shape{7, 1, 5, 2, 3, 9});
  shape.erase(0);
  shape.erase(4);
  CHECK(shape == Shape{1, 5, 2, 3});
  // An erased entry must not come back in a comparison.
  shape.push_back(4);
  shape.erase(4);
  CHECK(shape == Shape{1, 5, 2, 3});
  CHECK(shape.back() == 3);
  Shape full{1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_THROWS_WITH(full.push_back(9), "[shape] too many dimensions: wanted at most 8");
  CHECK_THROWS_WITH(Shape(std::vector<int64_t>(9, 1)),
                    "[shape] too many dimensions: given 9, wanted at most 8");
}

TEST_CASE("shape: row-major strides") {
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({5}) == Strides{1});
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
}

TEST_CASE("shape: broadcasting follows numpy") {
  CHECK(broadcast_shapes("add", {3, 1}, {1, 4}) == Shape{3, 4});
  CHECK(broadcast_shapes("add", {}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes("add", {2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast_shapes("add", {4, 1, 3}, {2, 1}) == Shape{4, 2, 3});
  CHECK(broadcast_shapes("add", {1}, {0}) == Shape{0});
  CHECK(broadcast_shapes("add", {0, 3}, {1, 3}) == Shape{0, 3});
  CHECK_THROWS_WITH(broadcast_shapes("add", {2, 3}, {2}),
                    Contains("[add] shapes do not broadcast: given (2, 3) and (2), wanted"));
  CHECK_THROWS_AS(broadcast_shapes("add", {0}, {2}), Error);
}

TEST_CASE("shape: strides of a broadcast tensor are 0 where it repeats") {
  CHECK(broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}) == Strides{0, 1, 0});
  CHECK(broadcast_strides({}, {}, {2, 2}) == Strides{0, 0});
  CHECK(broadcast_strides({2, 1}, {5, 7}, {2, 1}) == Strides{5, 7});
}

TEST_CASE("shape: negative axes count from the end") {
  CHECK(normalize_axis("sum", -1, 3) == 2);
  CHECK(normalize_axis("sum", -3, 3) == 0);
  CHECK(normalize_axis("sum", 2, 3) == 2);
  CHECK_THROWS_WITH(normalize_axis("sum", 3, 3),
                    "[sum] axis out of range: given 3, wanted within [-3, 2]");
  CHECK_THROWS_AS(normalize_axis("sum", -4, 3), Error);
  CHECK_THROWS_AS(normalize_axis("sum", 0, 0), Error);
}

}  // namespace
}  // namespace tenon
