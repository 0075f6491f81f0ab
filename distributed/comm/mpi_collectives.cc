#include "tenon/distributed/comm/mpi_collectives.h"

#include <algorithm>

#include "tenon/distributed/comm/peer_memory.h"

namespace tenon::comm {
namespace {

constexpr size_t kMessage = size_t{1} << 30;  // bytes; MPI counts in int
constexpr int64_t kSmall = 16 << 10;          // bytes that every rank gathers whole
constexpr int64_t kBlock = 4 << 20;           // bytes of a large reduction at a time
constexpr int kCollectiveTag = 1;
constexpr int kTransferTag = 2;

int64_t width_of(const Signature& call) { return static_cast<int64_t>(size_of(call.dtype)); }

// Memory for the parts of the other ranks.
struct Scratch {
  explicit Scratch(int64_t bytes)
      : storage(static_cast<size_t>(bytes), kCpu, Category::other),
        data(static_cast<std::byte*>(storage.data())) {}
  Storage storage;
  std::byte* data;
};

// Calls body(part address, bytes) for the messages that make up `bytes` bytes.
template <class Pointer, class Body>
void for_each_message(Pointer data, size_t bytes, Body body) {
  for (size_t begin = 0; begin < bytes; begin += kMessage) {
    body(data + begin, static_cast<int>(std::min(kMessage, bytes - begin)));
  }
}

void reduce(std::vector<const void*> sources, void* destination, int64_t count,
            const Signature& call, ReduceOp op, int divisor) {
  kernels::rank_reduce(DeviceType::cpu, {.sources = sources,
                                         .destinations = {&destination, 1},
                                         .count = count,
                                         .dtype = call.dtype,
                                         .op = op,
                                         .divisor = divisor});
}

// destination = op over the mesh's parts, which lie one after another; over several nodes each
// node's own result comes first, as it does where a node reduces in shared memory.
void reduce_parts(const Mesh& mesh, const std::byte* parts, std::byte* destination, int64_t count,
                  const Signature& call, int divisor) {
  const auto part = [&](int rank) { return parts + rank * count * width_of(call); };
  std::vector<const void*> sources;
  if (mesh.nodes.size() <= 1) {
    for (int rank = 0; rank < mesh.size; ++rank) sources.push_back(part(rank));
    return reduce(sources, destination, count, call, call.reduce, divisor);
  }
  const ReduceOp within = call.reduce == ReduceOp::mean ? ReduceOp::sum : call.reduce;
  const Scratch sums(static_cast<int64_t>(mesh.nodes.size()) * count * width_of(call));
  std::byte* sum = sums.data;
  for (const std::vector<int>& node : mesh.nodes) {
    std::vector<const void*> members;
    for (const int rank : node) members.push_back(part(rank));
    reduce(members, sum, count, call, within, 1);
    sources.push_back(sum);
    sum += count * width_of(call);
  }
  reduce(sources, destination, count, call, call.reduce, divisor);
}

// All-to-all of a block's parts, the own part's sum, and an all-gather: a ring's bytes.
void all_reduce_block(const Mesh& mesh, std::byte* data, int64_t count, std::byte* scratch,
                      const Signature& call, int divisor) {
  const int64_t width = width_of(call);
  const auto range = [&](int rank) { return part_of(count, mesh.size, rank, call.dtype); };
  const Range own = range(mesh.rank);
  const auto bytes = [&](int rank) { return static_cast<size_t>(range(rank).size * width); };
  const auto own_bytes = [&](int) { return bytes(mesh.rank); };
  const auto at = [&](int rank) { return data + range(rank).begin * width; };
  exchange(mesh,
           {.from = at,
            .to = [&](int rank) { return scratch + rank * own.size * width; },
            .send_bytes = bytes,
            .recv_bytes = own_bytes},
           call);
  if (own.size > 0) reduce_parts(mesh, scratch, at(mesh.rank), own.size, call, divisor);
  exchange(mesh,
           {.from = [&](int) { return at(mesh.rank); },
            .to = at,
            .send_bytes = own_bytes,
            .recv_bytes = bytes},
           call);
}

}  // namespace

void exchange(const Mesh& mesh, const Exchange& plan, const Signature& call) {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;
  const auto add = [&](int code, MPI_Request request, int peer) {
    check_mpi(code, name_of(call.op));
    requests.push_back(request);
    peers.push_back(mesh.names.empty() ? peer : mesh.names[static_cast<size_t>(peer)]);
  };
  for (int i = 1; i < mesh.size; ++i) {
    const int peer = (mesh.rank - i + mesh.size) % mesh.size;
    for_each_message(plan.to(peer), plan.recv_bytes(peer), [&](std::byte* to, int bytes) {
      MPI_Request request;
      const int code = MPI_Irecv(to, bytes, MPI_BYTE, peer, kCollectiveTag, mesh.comm, &request);
      add(code, request, peer);
    });
  }
  for (int i = 1; i < mesh.size; ++i) {
    const int peer = (mesh.rank + i) % mesh.size;
    for_each_message(plan.from(peer), plan.send_bytes(peer), [&](const std::byte* from, int bytes) {
      MPI_Request request;
      const int code = MPI_Isend(from, bytes, MPI_BYTE, peer, kCollectiveTag, mesh.comm, &request);
      add(code, request, peer);
    });
  }
  copy_memory(plan.to(mesh.rank), plan.from(mesh.rank), plan.recv_bytes(mesh.rank));
  mesh.runtime->wait_all(requests, peers, call);
}

void all_reduce(const Mesh& mesh, std::byte* data, const Signature& call, int divisor) {
  const int64_t width = width_of(call);
  const int64_t bytes = call.count * width;
  if (bytes <= kSmall) {
    const Scratch scratch(bytes * mesh.size);
    const auto size = [&](int) { return static_cast<size_t>(bytes); };
    exchange(mesh,
             {.from = [&](int) { return data; },
              .to = [&](int rank) { return scratch.data + rank * bytes; },
              .send_bytes = size,
              .recv_bytes = size},
             call);
    return reduce_parts(mesh, scratch.data, data, call.count, call, divisor);
  }
  const int64_t block = kBlock / width;
  const Range largest = part_of(std::min(block, call.count), mesh.size, 0, call.dtype);
  const Scratch scratch(largest.size * width * mesh.size);
  for (int64_t begin = 0; begin < call.count; begin += block) {
    all_reduce_block(mesh, data + begin * width, std::min(block, call.count - begin), scratch.data,
                     call, divisor);
  }
}

void reduce_scatter(const Mesh& mesh, std::byte* output, const std::byte* input,
                    const Signature& call, int divisor) {
  const int64_t width = width_of(call);
  const int64_t block = std::min(call.count, std::max<int64_t>(kBlock / width / mesh.size, 64));
  const Scratch scratch(block * width * mesh.size);
  for (int64_t begin = 0; begin < call.count; begin += block) {
    const int64_t count = std::min(block, call.count - begin);
    const auto size = [&](int) { return static_cast<size_t>(count * width); };
    exchange(mesh,
             {.from = [&](int rank) { return input + (rank * call.count + begin) * width; },
              .to = [&](int rank) { return scratch.data + rank * count * width; },
              .send_bytes = size,
              .recv_bytes = size},
             call);
    reduce_parts(mesh, scratch.data, output + begin * width, count, call, divisor);
  }
}

void all_gather(const Mesh& mesh, std::byte* output, const std::byte* input,
                const Signature& call) {
  const int64_t bytes = call.count * width_of(call);
  const auto size = [&](int) { return static_cast<size_t>(bytes); };
  exchange(mesh,
           {.from = [&](int) { return input; },
            .to = [&](int rank) { return output + rank * bytes; },
            .send_bytes = size,
            .recv_bytes = size},
           call);
}

void all_to_all(const Mesh& mesh, std::byte* output, const std::byte* input,
                const Signature& call) {
  const int64_t bytes = call.count * width_of(call);
  const auto size = [&](int) { return static_cast<size_t>(bytes); };
  exchange(mesh,
           {.from = [&](int rank) { return input + rank * bytes; },
            .to = [&](int rank) { return output + rank * bytes; },
            .send_bytes = size,
            .recv_bytes = size},
           call);
}

void broadcast(const Mesh& mesh, std::byte* data, const Signature& call) {
  const auto bytes = static_cast<size_t>(call.count * width_of(call));
  for_each_message(data, bytes, [&](std::byte* part, int count) {
    std::vector<MPI_Request> request(1);
    check_mpi(MPI_Ibcast(part, count, MPI_BYTE, call.peer, mesh.comm, request.data()), "broadcast");
    mesh.runtime->wait_all(request, {}, call);
  });
}

void barrier(const Mesh& mesh, const Signature& call) {
  std::vector<MPI_Request> request(1);
  check_mpi(MPI_Ibarrier(mesh.comm, request.data()), "barrier");
  mesh.runtime->wait_all(request, {}, call);
}

std::vector<MPI_Request> begin_transfer(MPI_Comm comm, const Request& request) {
  const Operation& operation = request.operation();
  const bool sends = operation.op == Op::send;
  const Tensor& tensor = operation.part();
  std::vector<MPI_Request> parts;
  const auto begin = [&](std::byte* data, int bytes) {
    MPI_Request part;
    check_mpi(sends ? MPI_Isend(data, bytes, MPI_BYTE, operation.peer, kTransferTag, comm, &part)
                    : MPI_Irecv(data, bytes, MPI_BYTE, operation.peer, kTransferTag, comm, &part),
              name_of(operation.op));
    parts.push_back(part);
  };
  auto* data = static_cast<std::byte*>(address_of(tensor));
  if (data == nullptr) {
    begin(nullptr, 0);
  } else {
    for_each_message(data, tensor.nbytes(), begin);
  }
  return parts;
}

}  // namespace tenon::comm
