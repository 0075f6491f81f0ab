#include <catch2/catch.hpp>

#include "tenon/tests/support/skip.h"

TEST_CASE("the build runs tests") { CHECK(1 + 1 == 2); }

TEST_CASE("a test case can be skipped") { TENON_SKIP("only to see it counted"); }
