// For the tests of the emulator itself: device arrays, captured reports, settings for one scope.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/tests/simt/report.h"
#include "tenon/tests/simt/settings.h"

namespace simt::testing {

// Throws unless the call succeeded.
void require(cudaError_t error, const char* call);

// Collects reports while it lives.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::vector<Report> reports() const;
  bool has(Kind kind) const;
  std::string text() const;  // of all of them

 private:
  ReportHandler previous_;
};

class WithSettings {
 public:
  WithSettings() : saved_(settings()) {}
  ~WithSettings() { settings() = saved_; }
  WithSettings(const WithSettings&) = delete;
  WithSettings& operator=(const WithSettings&) = delete;

 private:
  const Settings saved_;
};

// An array in device memory. Copies are on the null stream and waited for.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(
        cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, nullptr),
        "cudaMemcpyAsync");
    require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> copy(count_);
    require(cudaMemcpyAsync(copy.data(), data_, bytes(), cudaMemcpyDeviceToHost, nullptr),
            "cudaMemcpyAsync");
    return copy;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

}  // namespace simt::testing
