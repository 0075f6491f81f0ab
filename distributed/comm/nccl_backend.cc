#include "tenon/distributed/comm/nccl_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "tenon/core/cuda/context.h"
#include "tenon/core/cuda/device_table.h"
#include "tenon/core/cuda/libraries.h"
#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/device_group.h"
#include "tenon/distributed/comm/nccl_memory.h"

namespace tenon::comm {
namespace {

constexpr auto kWatch = std::chrono::milliseconds(50);

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    default:
      return ncclUint8;
  }
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::mean:
      return ncclAvg;
    case ReduceOp::max:
      return ncclMax;
    default:
      return ncclMin;
  }
}

std::string library_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return str(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::shared_ptr<Backend> make_nccl_backend(const std::shared_ptr<Backend>& host, Device device) {
  return std::make_shared<NcclBackend>(host, device);
}

[[maybe_unused]] const bool factory_set = set_nccl_factory(&make_nccl_backend);
[[maybe_unused]] const bool library_added = cuda::add_library("NCCL", &library_version);

}  // namespace

NcclLanes::~NcclLanes() {
  for (NcclLane& lane : lanes) {
    if (lane.comm == nullptr) continue;
    static_cast<void>(aborted ? ncclCommAbort(lane.comm) : ncclCommDestroy(lane.comm));
  }
}

NcclBackend::NcclBackend(std::shared_ptr<Backend> host, Device device)
    : DeviceSide(std::move(host), device),
      timeout_(timeout_seconds()),
      lanes_(std::make_shared<NcclLanes>()) {
  cuda::select(device.index);
  for (NcclLane& lane : lanes_->lanes) open_lane(lane);
  watchdog_ = std::thread([this] { watch(); });
}

void NcclBackend::open_lane(NcclLane& lane) {
  ncclUniqueId id{};
  if (rank() == 0) check(ncclGetUniqueId(&id), "group", "ncclGetUniqueId");
  const Tensor bytes = empty({sizeof(id.internal)},
                             {.dtype = DType::u8, .device = kCpu, .category = Category::other});
  std::memcpy(bytes.raw_data(), id.internal, sizeof(id.internal));
  ProcessGroup(host_).broadcast(bytes, 0, {.tag = "setup", .blocking = true}).wait();
  std::memcpy(id.internal, bytes.raw_data(), sizeof(id.internal));
  check(ncclCommInitRank(&lane.comm, size(), id, rank()), "group", "ncclCommInitRank");
  lane.stream = create_stream(device_, StreamPriority::high);
}

NcclBackend::~NcclBackend() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  watchdog_.join();
  if (lanes_->aborted) return;
  // A communicator must not be destroyed under a collective.
  for (const NcclLane& lane : lanes_->lanes) {
    static_cast<void>(cudaStreamSynchronize(cuda::handle_of(lane.stream)));
  }
}

void NcclBackend::check(ncclResult_t result, const char* op, const char* call) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* detail = ncclGetLastError(nullptr);
  throw Error(str("[", op, "] ", call, " failed on rank ", rank(), " (", device_, "): ",
                  ncclGetErrorString(result), detail != nullptr && *detail != '\0' ? ": " : "",
                  detail != nullptr ? detail : "", " (NCCL_DEBUG=WARN tells more)"),
              result == ncclRemoteError ? ErrorKind::peer_lost : ErrorKind::failed);
}

void NcclBackend::throw_failure() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(failure_, ErrorKind::peer_lost);
}

const NcclLane& NcclBackend::lane_of(const Operation& operation) const {
  const bool reduces = operation.op == Op::all_reduce || operation.op == Op::reduce_scatter;
  return lanes_->lanes[reduces ? 1 : 0];
}

void NcclBackend::launch(const std::shared_ptr<Request>& request) {
  throw_failure();
  settle_dropped();
  const Operation& operation = request->operation();
  const NcclLane& lane = lane_of(operation);
  request->start();
  cuda::select(device_.index);
  wait_event(lane.stream, record_event(current_stream(device_)));
  const StreamEvent begin = record_timed_event(lane.stream);
  if (request->signature().count > 0) enqueue(operation, request->signature(), lane);
  request->set_ready(record_timed_event(lane.stream));
  request->set_clock([whole = Interval{begin, request->ready()}] { return whole.ns(); });
  const std::lock_guard lock(mutex_);
  flights_.push_back({request, request, request->ready(), describe(request->signature()),
                      now_ns() + static_cast<int64_t>(timeout_ * 1e9)});
}

void NcclBackend::enqueue(const Operation& operation, const Signature& call,
                          const NcclLane& lane) const {
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  const cudaStream_t stream = cuda::handle_of(lane.stream);
  const auto* input = static_cast<const std::byte*>(address_of(operation.input));
  auto* output = static_cast<std::byte*>(address_of(operation.output));
  const char* op = name_of(call.op);
  switch (call.op) {
    case Op::all_reduce:
      return check(ncclAllReduce(input, output, count, type, op_of(call.reduce), lane.comm, stream),
                   op, "ncclAllReduce");
    case Op::reduce_scatter:
      return check(
          ncclReduceScatter(input, output, count, type, op_of(call.reduce), lane.comm, stream), op,
          "ncclReduceScatter");
    case Op::all_gather:
      return check(ncclAllGather(input, output, count, type, lane.comm, stream), op,
                   "ncclAllGather");
    case Op::broadcast:
      return check(ncclBroadcast(input, output, count, type, call.peer, lane.comm, stream), op,
                   "ncclBroadcast");
    default:
      break;
  }
  TENON_ASSERT(call.op == Op::all_to_all);
  const size_t part = count * size_of(call.dtype);
  check(ncclGroupStart(), op, "ncclGroupStart");
  for (int peer = 0; peer < size(); ++peer) {
    const size_t offset = part * static_cast<size_t>(peer);
    check(ncclSend(input + offset, count, type, peer, lane.comm, stream), op, "ncclSend");
    check(ncclRecv(output + offset, count, type, peer, lane.comm, stream), op, "ncclRecv");
  }
  check(ncclGroupEnd(), op, "ncclGroupEnd");
}

void NcclBackend::wait(Request& request) {
  throw_failure();
  if (request.done()) return;
  wait_event(current_stream(device_), request.ready());
  request.complete();
  const std::lock_guard lock(mutex_);
  for (Flight& flight : flights_) {
    if (flight.request.get() == &request) flight.request.reset();
  }
}

// Requests whose Work was dropped: their tensors may go once the compute stream waits for them.
void NcclBackend::settle_dropped() {
  std::vector<std::shared_ptr<Request>> dropped;
  {
    const std::lock_guard lock(mutex_);
    for (Flight& flight : flights_) {
      if (flight.request.use_count() == 1) dropped.push_back(std::move(flight.request));
    }
  }
  for (const auto& request : dropped) {
    wait_event(current_stream(device_), request->ready());
    request->complete();
  }
}

std::shared_ptr<Storage> NcclBackend::allocate(size_t bytes, Category category, Device device) {
  return std::make_shared<Storage>(bytes, device, category,
                                   bytes > 0 ? registered_memory(lanes_, device) : nullptr);
}

void NcclBackend::watch() {
  cuda::select(device_.index);
  std::unique_lock lock(mutex_);
  while (!closing_ && failure_.empty()) {
    changed_.wait_for(lock, kWatch);
    std::erase_if(flights_, [](const Flight& flight) {
      return !flight.request && cudaEventQuery(cuda::handle_of(flight.end)) != cudaErrorNotReady;
    });
    if (closing_) return;
    const std::string text = trouble();
    if (text.empty()) continue;
    failure_ = text;
    lock.unlock();
    fail(text);
    return;
  }
}

// What has gone wrong, with the collective that suffers from it; empty when nothing has.
std::string NcclBackend::trouble() {
  const std::string where =
      flights_.empty() ? "" : str(", while rank ", rank(), " waits in ", flights_.front().text);
  for (const NcclLane& lane : lanes_->lanes) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(lane.comm, &state);
    if (result == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) continue;
    const char* detail = ncclGetLastError(lane.comm);
    return str("[nccl] ", ncclGetErrorString(state == ncclSuccess ? result : state),
               detail != nullptr && *detail != '\0' ? ": " : "", detail != nullptr ? detail : "",
               where);
  }
  for (const Flight& flight : flights_) {
    if (now_ns() < flight.deadline_ns) continue;
    if (cudaEventQuery(cuda::handle_of(flight.end)) != cudaErrorNotReady) continue;
    return str("[nccl] no answer within ", timeout_, " s from the other ranks, while rank ", rank(),
               " waits in ", flight.text);
  }
  return {};
}

void NcclBackend::fail(const std::string& text) {
  // Ends the kernels that wait for peers, so that whoever waits for the device gets it back.
  lanes_->aborted = true;
  for (NcclLane& lane : lanes_->lanes) {
    static_cast<void>(ncclCommAbort(std::exchange(lane.comm, nullptr)));
  }
  host_->abort(Error(text, ErrorKind::peer_lost));
}

}  // namespace tenon::comm
