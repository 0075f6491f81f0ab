#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS  // its handler would hide a sanitizer's report
#include "tenon/tests/support/catch_session.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tenon/tests/support/skip.h"

namespace tenon::testing {
namespace {

std::string skip_reason;  // of the running test case; empty: it was not skipped

// Writes what happened to each case into $TENON_TEST_REPORT.RANK, line by line, so that a crash
// leaves the name of the case it happened in.
class ReportListener : public Catch::TestEventListenerBase {
 public:
  explicit ReportListener(const Catch::ReporterConfig& config)
      : Catch::TestEventListenerBase(config) {
    const char* path = std::getenv("TENON_TEST_REPORT");
    if (path == nullptr) return;
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    report_.open(std::string(path) + "." + (rank != nullptr ? rank : "0"), std::ios::app);
  }

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    Catch::TestEventListenerBase::testCaseStarting(info);
    skip_reason.clear();
    report_ << "begin\t" << info.name << std::endl;
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool passed = stats.totals.assertions.allOk();
    const char* result = !passed ? "failed" : skip_reason.empty() ? "passed" : "skipped";
    report_ << result << '\t' << stats.testInfo.name << '\t' << skip_reason << std::endl;
  }

 private:
  std::ofstream report_;
};

CATCH_REGISTER_LISTENER(ReportListener)

}  // namespace

void mark_skipped(const std::string& reason) { skip_reason = reason; }

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace tenon::testing
