// Every planted bug is reported as what it is, in every schedule, and no correct twin is reported.
#include <catch2/catch.hpp>

#include "tenon/tests/simt/hooks.h"
#include "tenon/tests/simt/planted.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::planted {

bool has_checker() { return hooks.kernel_started != nullptr; }

namespace {

// Broken accesses of memory end the process there.
#if defined(TENON_ASAN) || defined(TENON_UBSAN)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif

void check(const std::vector<Case>& cases, bool with_broken = true) {
  const testing::WithSettings restore;
  for (const Case& planted : cases) {
    const bool broken_runs = with_broken && (has_checker() || !planted.needs_checker);
    for (settings().seed = 0; settings().seed < 4; ++settings().seed) {
      CAPTURE(planted.name, settings().seed);
      {
        const testing::Capture capture;
        planted.run(false);
        CHECK(capture.text() == "");
      }
      if (!broken_runs) continue;
      const testing::Capture capture;
      planted.run(true);
      CAPTURE(capture.text());
      CHECK(capture.has(planted.kind));
    }
  }
}

TEST_CASE("simt: planted bugs with barriers") { check(barrier_cases()); }
TEST_CASE("simt: planted bugs with warp functions") { check(warp_cases()); }
TEST_CASE("simt: planted bugs with memory") { check(memory_cases(), !kSanitizer); }
TEST_CASE("simt: planted races") { check(race_cases()); }

}  // namespace
}  // namespace simt::planted
