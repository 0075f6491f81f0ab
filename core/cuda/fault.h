// Errors found by a kernel (an index out of range). The kernel leaves a record in pinned memory and
// goes on with a value that harms nothing; the next time the host waits for the device anyway it
// finds the record and throws the Error that the CPU kernel would have thrown.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tenon/core/device.h"

namespace tenon::cuda {

// "[op] WHAT out of range: given VALUE WHERE POSITION, wanted 0 to LIMIT - 1", for example
// "[embedding] id out of range: given 9 at place 3, wanted 0 to 4". The strings are the host's; the
// device only passes them on.
struct FaultText {
  const char* op;
  const char* what;
  const char* where;
};

struct FaultRecord {
  unsigned raised;  // 0 until the first fault; later ones are dropped
  FaultText text;
  int64_t value;
  int64_t position;
  int64_t limit;
};

// A kernel's way to report; passed by value.
struct FaultSink {
  FaultRecord* record;
  FaultText text;

  __device__ void raise(int64_t value, int64_t position, int64_t limit) const;  // in simt.h
};

FaultSink fault_sink(Device device, const FaultText& text);
// Throws the Error of the first fault on `device`, once. The host must have waited for the stream.
void throw_fault(Device device);

}  // namespace tenon::cuda
