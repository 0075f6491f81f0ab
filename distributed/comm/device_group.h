// A group that reaches tensors on a CUDA device as well: operations on cpu tensors go to the host's
// backend, those on the device to NCCL (in the CUDA plug-in), or through the host's memory where
// ranks share a device, which NCCL does not allow.
#pragma once

#include <memory>

#include "tenon/core/device.h"
#include "tenon/distributed/comm/backend.h"

namespace tenon::comm {

// Collective over `host`, the group so far; `device` is this rank's.
std::shared_ptr<Backend> add_device(const std::shared_ptr<Backend>& host, Device device);

// Makes the backend of `device` for the ranks of `host`; collective.
using DeviceBackendFactory = std::shared_ptr<Backend> (*)(const std::shared_ptr<Backend>& host,
                                                          Device device);
// Called once by the CUDA plug-in.
bool set_nccl_factory(DeviceBackendFactory factory);

}  // namespace tenon::comm
