#include "tenon/tests/simt/test_support.h"

#include <mutex>

#include "tenon/core/check.h"
#include "tenon/core/cuda/check.h"

namespace simt::testing {
namespace {

std::mutex mutex;
std::vector<Report> captured;

void take(const Report& report) {
  const std::lock_guard lock(mutex);
  captured.push_back(report);
}

}  // namespace

void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) tenon::fail("test", call, " failed: ", cudaGetErrorName(error));
}

Capture::Capture() {
  const std::lock_guard lock(mutex);
  captured.clear();
  previous_ = set_report_handler(&take);
}
Capture::~Capture() { set_report_handler(previous_); }

std::vector<Report> Capture::reports() const {
  const std::lock_guard lock(mutex);
  return captured;
}

bool Capture::has(Kind kind) const {
  for (const Report& report : reports()) {
    if (report.kind == kind) return true;
  }
  return false;
}

std::string Capture::text() const {
  std::string all;
  for (const Report& report : reports()) {
    all += std::string(kind_name(report.kind)) + ": " + report.text + "\n";
  }
  return all;
}

}  // namespace simt::testing

namespace tenon::cuda {

// The plug-in's own is more than the tests of the emulator need.
void check_launch(cudaError_t error, const char* op, dim3, dim3, size_t, cudaStream_t) {
  if (error != cudaSuccess) fail(op, "kernel launch failed: ", cudaGetErrorName(error));
}

}  // namespace tenon::cuda
