#include "tenon/tests/simt/report.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "tenon/tests/simt/settings.h"

namespace simt {
namespace {

constexpr std::array kNames = {
    "DIVERGENT BARRIER", "BARRIER AFTER EXIT", "DIVERGENT COLLECTIVE",
    "MASK MISMATCH",     "LANE OUTSIDE MASK",  "SHUFFLE SOURCE",
    "DEADLOCK",          "SHARED LIMIT",       "OUT OF BOUNDS",
    "USE AFTER FREE",    "UNINITIALISED",      "SHARED RACE",
    "GLOBAL RACE",       "STREAM RACE",        "HOST MEMORY",
    "HOST ACCESS",       "BAD CALL",
};

void print_and_abort(const Report& report) {
  std::fprintf(stderr, "SIMT ERROR: %s: %s (seed %llu, %s)\n", kind_name(report.kind),
               report.text.c_str(), static_cast<unsigned long long>(settings().seed),
               settings().async ? "async" : "eager");
  std::fflush(stderr);
  std::abort();
}

// A handler's own accesses are of no interest.
__thread bool reporting __attribute__((tls_model("initial-exec"))) = false;

std::atomic<ReportHandler> current{&print_and_abort};

}  // namespace

const char* kind_name(Kind kind) { return kNames.at(static_cast<size_t>(kind)); }

ReportHandler set_report_handler(ReportHandler handler) {
  const ReportHandler previous = current.exchange(handler != nullptr ? handler : &print_and_abort);
  return previous == &print_and_abort ? nullptr : previous;
}

void report(Kind kind, const std::string& text) {
  if (reporting) return;
  reporting = true;
  current.load()({kind, text});
  reporting = false;
}

}  // namespace simt
