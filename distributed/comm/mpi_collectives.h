// Collectives over plain MPI messages, for memory that peers cannot reach: MPI moves the parts, the
// sums are our own, in rank order. No MPI_Op. Includes mpi.h: only for mpi_*.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tenon/distributed/comm/mpi_runtime.h"

namespace tenon::comm {

// The ranks of a communicator, and how their contributions are added up.
struct Mesh {
  MpiRuntime* runtime = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<std::vector<int>> nodes = {};  // ranks by node; their sums come first
  std::vector<int> names = {};               // numbers of the ranks in the world, for errors
};

// Sends from(j) to each rank j and receives to(j) from it; every rank sends `send_bytes(j)` and
// receives `recv_bytes(j)`, which the other side expects.
struct Exchange {
  std::function<const std::byte*(int)> from;
  std::function<std::byte*(int)> to;
  std::function<size_t(int)> send_bytes;
  std::function<size_t(int)> recv_bytes;
};
void exchange(const Mesh& mesh, const Exchange& plan, const Signature& call);

// `divisor` is that of a mean: the ranks of the whole group, of which the mesh may hold sums.
void all_reduce(const Mesh& mesh, std::byte* data, const Signature& call, int divisor);
void reduce_scatter(const Mesh& mesh, std::byte* output, const std::byte* input,
                    const Signature& call, int divisor);
void all_gather(const Mesh& mesh, std::byte* output, const std::byte* input, const Signature& call);
void all_to_all(const Mesh& mesh, std::byte* output, const std::byte* input, const Signature& call);
void broadcast(const Mesh& mesh, std::byte* data, const Signature& call);
void barrier(const Mesh& mesh, const Signature& call);

// Begins a send or receive of any size; the parts complete later.
std::vector<MPI_Request> begin_transfer(MPI_Comm comm, const Request& request);

// Every rank's value of `mine`, which is plain data.
template <class T>
std::vector<T> gather_values(const Mesh& mesh, const T& mine, const Signature& call) {
  std::vector<T> all(static_cast<size_t>(mesh.size));
  std::vector<MPI_Request> request(1);
  check_mpi(MPI_Iallgather(&mine, sizeof(T), MPI_BYTE, all.data(), sizeof(T), MPI_BYTE, mesh.comm,
                           request.data()),
            name_of(call.op));
  mesh.runtime->wait_all(request, {}, call);
  return all;
}

}  // namespace tenon::comm
