// Collectives in windows over several nodes: the ranks of a node reduce in shared memory, the ranks
// with the same local number exchange between the nodes, and the node shares the result.
#include <algorithm>

#include "tenon/distributed/comm/mpi_backend.h"

namespace tenon::comm {

void MpiBackend::run_over_nodes(PeerOperation share) {
  switch (share.what.op) {
    case Op::all_reduce:
      return reduce_over_nodes(share);
    case Op::reduce_scatter:
      return scatter_over_nodes(share);
    default:
      return gather_over_nodes(share);
  }
}

void MpiBackend::reduce_over_nodes(PeerOperation& share) {
  const Signature call = share.what;
  const Range own = part_of(call.count, node_.size, local_, call.dtype);
  const auto width = static_cast<int64_t>(size_of(call.dtype));
  std::byte* const mine = share.outputs[static_cast<size_t>(local_)] + own.begin * width;
  if (call.reduce == ReduceOp::mean) share.what.reduce = ReduceOp::sum;
  const std::vector<std::byte*> everywhere = share.outputs;
  share.outputs = {everywhere[static_cast<size_t>(local_)]};
  run_share(share);  // only this rank reads this part of its peers, so it may write there at once
  Signature part = call;
  part.count = own.size;
  if (own.size > 0) all_reduce(cross_, mine, part, mesh_.size);
  for (std::byte* output : everywhere) {
    copy_memory(output + own.begin * width, mine, static_cast<size_t>(own.size * width));
  }
  room_->part(call);
}

void MpiBackend::scatter_over_nodes(PeerOperation& share) {
  const Signature call = share.what;
  const auto bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  Storage sums(bytes * mesh_.nodes.size(), kCpu, Category::other);
  auto* const parts = static_cast<std::byte*>(sums.data());
  std::byte* const output = share.outputs[static_cast<size_t>(local_)];
  if (call.reduce == ReduceOp::mean) share.what.reduce = ReduceOp::sum;
  for (size_t node = 0; node < mesh_.nodes.size(); ++node) {
    // The part of the rank with this local number on that node.
    share.rank = mesh_.nodes[node][static_cast<size_t>(local_)];
    share.outputs.assign(static_cast<size_t>(share.rank) + 1, parts + node * bytes);
    run_share(share);
  }
  room_->part(call);  // peers are done with this rank's input, which the output may be part of
  reduce_scatter(cross_, output, parts, call, mesh_.size);
}

void MpiBackend::gather_over_nodes(PeerOperation& share) {
  const Signature call = share.what;
  const auto bytes = static_cast<int64_t>(static_cast<size_t>(call.count) * size_of(call.dtype));
  std::byte* const output = share.outputs[static_cast<size_t>(local_)];
  const std::byte* const input = share.inputs[static_cast<size_t>(local_)];
  const auto slot = [&](int rank) { return rank * bytes; };
  const auto size = [&](int) { return static_cast<size_t>(bytes); };
  exchange(cross_,
           {.from = [&](int) { return input; },
            .to =
                [&](int node) {
                  return output +
                         slot(mesh_.nodes[static_cast<size_t>(node)][static_cast<size_t>(local_)]);
                },
            .send_bytes = size,
            .recv_bytes = size},
           call);
  for (const std::vector<int>& node : mesh_.nodes) {
    const int64_t at = slot(node[static_cast<size_t>(local_)]);
    for (std::byte* peer : share.outputs) {
      copy_memory(peer + at, output + at, static_cast<size_t>(bytes));
    }
  }
  room_->part(call);
}

}  // namespace tenon::comm
