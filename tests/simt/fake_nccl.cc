// The functions of NCCL that the plug-in calls, for the emulator: collectives as tasks of their
// stream, reductions in rank order, rounded once. Ranks that call different things, a lost peer and
// an abort end a collective with the asynchronous error that the real library would give.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/core/half.h"
#include "tenon/tests/simt/fake_nccl_room.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt::nccl {
namespace {

enum Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

struct Communicator {
  Communicator(const ncclUniqueId& id, int rank, int ranks) : room(id, rank, ranks) {}
  Room room;
  uint64_t sequence = 0;
  std::mutex mutex;
  std::set<void*> registered;
};

using Shared = std::shared_ptr<Communicator>;

struct Call {
  Shared communicator;
  Signature signature;
  int peer = -1;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  cudaStream_t stream = nullptr;
  size_t moved = 0;  // of a message

  size_t bytes() const;
};

size_t size_of(int dtype) {
  switch (dtype) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

size_t Call::bytes() const { return signature.count * size_of(signature.dtype); }

// The type a reduction computes in.
template <class T>
using Wide =
    std::conditional_t<std::is_same_v<T, tenon::Float16> || std::is_same_v<T, tenon::BFloat16>,
                       float, T>;

template <class T>
void reduce(const Call& call, size_t offset, size_t count, std::byte* to) {
  const Room& room = call.communicator->room;
  auto* out = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) {
    Wide<T> value{};
    for (int rank = 0; rank < room.ranks(); ++rank) {
      const auto next =
          static_cast<Wide<T>>(reinterpret_cast<const T*>(room.piece(rank) + offset)[i]);
      if (rank == 0) {
        value = next;
      } else if (call.signature.op == ncclMax) {
        value = std::max(value, next);
      } else if (call.signature.op == ncclMin) {
        value = std::min(value, next);
      } else {
        value += next;
      }
    }
    if (call.signature.op == ncclAvg) value /= static_cast<Wide<T>>(room.ranks());
    out[i] = static_cast<T>(value);
  }
}

void reduce_any(const Call& call, size_t offset, size_t count, std::byte* to) {
  switch (call.signature.dtype) {
    case ncclFloat32:
      return reduce<float>(call, offset, count, to);
    case ncclFloat64:
      return reduce<double>(call, offset, count, to);
    case ncclFloat16:
      return reduce<tenon::Float16>(call, offset, count, to);
    case ncclBfloat16:
      return reduce<tenon::BFloat16>(call, offset, count, to);
    case ncclInt64:
      return reduce<int64_t>(call, offset, count, to);
    case ncclInt32:
      return reduce<int32_t>(call, offset, count, to);
    default:
      return reduce<uint8_t>(call, offset, count, to);
  }
}

// One round: everybody puts a part into its piece, all meet, everybody takes what it needs.
bool run_round(const Call& call, size_t begin, size_t bytes, size_t slot) {
  Room& room = call.communicator->room;
  const size_t element = size_of(call.signature.dtype);
  std::byte* const mine = room.piece(room.rank());
  const auto ranks = static_cast<size_t>(room.ranks());
  const auto self = static_cast<size_t>(room.rank());
  switch (call.signature.kind) {
    case kReduceScatter:
      for (size_t part = 0; part < ranks; ++part) {
        std::memcpy(mine + part * slot, call.from + part * call.bytes() + begin, bytes);
      }
      break;
    case kBroadcast:
      if (room.rank() == call.signature.root) std::memcpy(mine, call.from + begin, bytes);
      break;
    default:
      std::memcpy(mine, call.from + begin, bytes);
  }
  if (!room.barrier()) return false;
  switch (call.signature.kind) {
    case kAllReduce:
      reduce_any(call, 0, bytes / element, call.to + begin);
      break;
    case kReduceScatter:
      reduce_any(call, self * slot, bytes / element, call.to + begin);
      break;
    case kAllGather:
      for (size_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(call.to + rank * call.bytes() + begin, room.piece(static_cast<int>(rank)),
                    bytes);
      }
      break;
    default:
      std::memcpy(call.to + begin, room.piece(call.signature.root), bytes);
  }
  return room.barrier();
}

void run_collective(const Call& call) {
  Room& room = call.communicator->room;
  if (!room.meet(call.signature)) return;
  const size_t parts =
      call.signature.kind == kReduceScatter ? static_cast<size_t>(room.ranks()) : 1;
  const size_t slot = Room::kChunk / parts / 64 * 64;
  for (size_t begin = 0; begin < call.bytes(); begin += slot) {
    if (!run_round(call, begin, std::min(slot, call.bytes() - begin), slot)) return;
  }
}

bool is_message(const Call& call) { return call.signature.kind >= kSend; }

// Messages of a group move forward together, so that no order of them can block another.
void run_messages(std::vector<Call>& calls) {
  double begin = seconds();
  for (bool open = true; open;) {
    open = false;
    bool moved = false;
    Room* waiting = nullptr;
    for (Call& call : calls) {
      if (call.moved == call.bytes() || call.communicator->room.ended()) continue;
      Room& room = call.communicator->room;
      const size_t left = call.bytes() - call.moved;
      const size_t step =
          call.signature.kind == kSend
              ? room.try_send(call.peer, call.signature, call.from + call.moved, left)
              : room.try_receive(call.peer, call.signature, call.to + call.moved, left);
      call.moved += step;
      moved = moved || step > 0;
      open = true;
      waiting = &room;
    }
    if (moved) begin = seconds();
    if (open && !moved && !waiting->pause(seconds() - begin)) return;
  }
}

void run_all(std::vector<Call>& calls) {
  std::vector<Call> messages;
  for (Call& call : calls) {
    if (is_message(call)) {
      messages.push_back(call);
    } else {
      run_collective(call);
    }
  }
  run_messages(messages);
}

std::vector<Access> accesses_of(const Call& call) {
  const Room& room = call.communicator->room;
  const auto ranks = static_cast<size_t>(room.ranks());
  std::vector<Access> accesses;
  const bool reads = call.from != nullptr &&
                     (call.signature.kind != kBroadcast || room.rank() == call.signature.root);
  if (reads) {
    accesses.push_back(
        {call.from, call.bytes() * (call.signature.kind == kReduceScatter ? ranks : 1), false});
  }
  if (call.to != nullptr) {
    accesses.push_back(
        {call.to, call.bytes() * (call.signature.kind == kAllGather ? ranks : 1), true});
  }
  return accesses;
}

thread_local int group_depth = 0;
thread_local std::vector<Call> group_calls;
thread_local std::string last_error;

void enqueue_calls(std::vector<Call> calls) {
  if (calls.empty()) return;
  std::vector<Access> accesses;
  for (const Call& call : calls) {
    for (const Access& access : accesses_of(call)) accesses.push_back(access);
  }
  const cudaStream_t stream = calls.front().stream;
  simt::enqueue(stream, calls.size() == 1 ? "nccl" : "nccl group", std::move(accesses),
                [calls = std::move(calls)]() mutable { run_all(calls); });
}

// Communicators live as long as tasks use them; the handle is a pointer to this owner.
ncclResult_t add(ncclComm_t comm, Kind kind, const void* from, void* to, size_t count,
                 ncclDataType_t dtype, int op, int root, int peer, cudaStream_t stream) {
  if (comm == nullptr) {
    last_error = "the communicator is null";
    return ncclInvalidArgument;
  }
  const Shared& shared = *reinterpret_cast<Shared*>(comm);
  if (shared->room.ended()) return ncclInvalidUsage;
  Call call{shared, {}, peer, static_cast<const std::byte*>(from), static_cast<std::byte*>(to),
            stream};
  const uint64_t sequence = kind >= kSend ? 0 : ++shared->sequence;
  call.signature = {sequence, count, kind, dtype, op, root};
  group_calls.push_back(std::move(call));
  if (group_depth == 0) enqueue_calls(std::exchange(group_calls, {}));
  return ncclSuccess;
}

}  // namespace
}  // namespace simt::nccl

using simt::nccl::Communicator;
using simt::nccl::Shared;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id->internal, 0, sizeof(id->internal));
  for (int i = 0; i < 16; ++i) id->internal[i] = static_cast<char>(random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto* const shared = new Shared(std::make_shared<Communicator>(id, rank, ranks));
  *comm = reinterpret_cast<ncclComm_t>(shared);
  if ((*shared)->room.result() == ncclSuccess) return ncclSuccess;
  simt::nccl::last_error = (*shared)->room.why();
  return (*shared)->room.result();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete reinterpret_cast<Shared*>(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  (*reinterpret_cast<Shared*>(comm))->room.abort();
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr) return ncclInvalidArgument;
  *error = (*reinterpret_cast<Shared*>(comm))->room.result();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) return simt::nccl::last_error.c_str();
  const auto& room = (*reinterpret_cast<Shared*>(comm))->room;
  return room.result() == ncclSuccess ? simt::nccl::last_error.c_str() : room.why().c_str();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kAllReduce, from, to, count, dtype, op, 0, -1, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kReduceScatter, from, to, count, dtype, op, 0, -1,
                         stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kAllGather, from, to, count, dtype, 0, 0, -1, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kBroadcast, from, to, count, dtype, 0, root, -1, stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kSend, from, nullptr, count, dtype, 0, 0, peer, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return simt::nccl::add(comm, simt::nccl::kRecv, nullptr, to, count, dtype, 0, 0, peer, stream);
}

ncclResult_t ncclGroupStart() {
  ++simt::nccl::group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (simt::nccl::group_depth == 0) return ncclInvalidUsage;
  if (--simt::nccl::group_depth > 0) return ncclSuccess;
  simt::nccl::enqueue_calls(std::exchange(simt::nccl::group_calls, {}));
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  return cudaMalloc(data, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* data) {
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t, void** handle) {
  if (comm == nullptr || data == nullptr) return ncclInvalidArgument;
  Communicator& communicator = **reinterpret_cast<Shared*>(comm);
  const std::lock_guard lock(communicator.mutex);
  communicator.registered.insert(data);
  *handle = data;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (comm == nullptr) return ncclInvalidArgument;
  Communicator& communicator = **reinterpret_cast<Shared*>(comm);
  const std::lock_guard lock(communicator.mutex);
  return communicator.registered.erase(handle) == 1 ? ncclSuccess : ncclInvalidArgument;
}

}  // extern "C"
