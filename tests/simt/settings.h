// How the emulator runs, from the environment when it is first asked for; tests may change it while
// nothing is enqueued. README.md lists the variables.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace simt {

struct Settings {
  uint64_t seed = 0;                // TENON_SIMT_SEED
  bool async = false;               // TENON_SIMT_MODE=async
  bool protect = false;             // TENON_SIMT_PROTECT=1
  int devices = 8;                  // TENON_EMULATED_DEVICES
  size_t memory = size_t{4} << 30;  // TENON_EMULATED_MEMORY, bytes of each device
};

Settings& settings();

// "cudaMalloc:3,launch:2": the third cudaMalloc from now on and the second launch fail.
void set_failures(const std::string& list);  // TENON_EMULATED_FAIL

// Whether this call of `function` is one that shall fail.
bool shall_fail(const char* function);
// "driver:none" or "driver:old".
bool driver_is(const char* state);

// Small random numbers that depend on their start alone.
class Random {
 public:
  explicit Random(uint64_t start) : state_(start * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>((state_ * 0x2545F4914F6CDD1Du) >> 32);
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>((uint64_t{next()} * limit) >> 32); }

 private:
  uint64_t state_;
};

}  // namespace simt
