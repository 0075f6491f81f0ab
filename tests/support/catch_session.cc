#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS  // its handler would hide a sanitizer's report
#include "tenon/tests/support/catch_session.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
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
    const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
    many_ranks_ = ranks != nullptr && std::atoi(ranks) > 1;
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
    // The other ranks may wait for this one forever; without this exit the job would use up all of
    // its time. mpirun ends it at once.
    if (!passed && many_ranks_) {
      std::cout.flush();
      std::fflush(nullptr);
      std::_Exit(1);
    }
  }

 private:
  std::ofstream report_;
  bool many_ranks_ = false;
};

CATCH_REGISTER_LISTENER(ReportListener)

}  // namespace

void mark_skipped(const std::string& reason) { skip_reason = reason; }

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace tenon::testing
