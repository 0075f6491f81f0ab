// The umbrella header compiles, alone and with our warnings.
#include "tenon/tenon.h"

#include <catch2/catch.hpp>

TEST_CASE("the umbrella header is complete") { SUCCEED(); }
