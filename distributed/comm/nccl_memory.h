// Device memory that NCCL knows beforehand, so that it can read and write it without a copy of its
// own (ncclMemAlloc, ncclCommRegister). Includes nccl.h: only for nccl_*.cc.
#pragma once

#include <memory>

#include "tenon/core/device.h"
#include "tenon/core/memory_source.h"
#include "tenon/distributed/comm/nccl_backend.h"

namespace tenon::comm {

std::shared_ptr<MemorySource> registered_memory(std::shared_ptr<NcclLanes> lanes, Device device);

}  // namespace tenon::comm
