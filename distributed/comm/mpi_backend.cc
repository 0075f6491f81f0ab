#include "tenon/distributed/comm/mpi_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tenon::comm {
namespace {

Mesh mesh_of(MpiRuntime& runtime, MPI_Comm comm) {
  Mesh mesh{.runtime = &runtime, .comm = runtime.adopt(comm)};
  MPI_Comm_rank(comm, &mesh.rank);
  MPI_Comm_size(comm, &mesh.size);
  mesh.names = gather_values(mesh, runtime.rank(), {});
  return mesh;
}

Mesh split_mesh(const Mesh& mesh, int color, int key, const char* op) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(mesh.comm, color, key, &part), op);
  return mesh_of(*mesh.runtime, part);
}

// Whether all ranks have it.
bool everywhere(const Mesh& mesh, bool mine, const Signature& call) {
  const std::vector<char> all = gather_values(mesh, static_cast<char>(mine), call);
  return std::ranges::find(all, 0) == all.end();
}

void check_agreement(std::span<const Signature> signatures, std::span<const int> ranks) {
  const std::string text = disagreement(signatures, ranks);
  if (!text.empty()) throw Error(text);
}

}  // namespace

std::shared_ptr<MpiBackend> MpiBackend::create(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm) {
  return std::shared_ptr<MpiBackend>(new MpiBackend(std::move(runtime), comm));
}

MpiBackend::MpiBackend(std::shared_ptr<MpiRuntime> runtime, MPI_Comm comm)
    : runtime_(std::move(runtime)), mesh_(mesh_of(*runtime_, comm)) {
  find_nodes();
  if (node_.size > 1) open_room();
}

void MpiBackend::find_nodes() {
  const std::vector<int> colors = gather_values(mesh_, runtime_->node_color(), {});
  std::vector<int> nodes;  // their colors, in the order of their first ranks
  for (int rank = 0; rank < mesh_.size; ++rank) {
    const int color = colors[static_cast<size_t>(rank)];
    auto node = std::ranges::find(nodes, color);
    if (node == nodes.end()) {
      nodes.push_back(color);
      mesh_.nodes.emplace_back();
      node = nodes.end() - 1;
    }
    mesh_.nodes[static_cast<size_t>(node - nodes.begin())].push_back(rank);
  }
  const auto own = std::ranges::find(nodes, runtime_->node_color()) - nodes.begin();
  const std::vector<int>& local = mesh_.nodes[static_cast<size_t>(own)];
  local_ = static_cast<int>(std::ranges::find(local, mesh_.rank) - local.begin());
  node_ = split_mesh(mesh_, static_cast<int>(own), mesh_.rank, "split");
  cross_ = split_mesh(mesh_, local_, mesh_.rank, "split");
  int expected = 0;
  for (const std::vector<int>& node : mesh_.nodes) {
    regular_ = regular_ && node.size() == mesh_.nodes[0].size();
    for (const int rank : node) regular_ = regular_ && rank == expected++;
  }
}

void MpiBackend::open_room() {
  std::string reason;
  const auto segment = share(NodeRoom::bytes(node_.size), {}, reason);
  if (!segment) {
    note_ = str("ranks of this node exchange messages instead of sharing memory: ", reason);
    return;
  }
  room_ = std::make_shared<NodeRoom>(segment, local_, node_.names, runtime_->timeout(),
                                     [runtime = runtime_.get()] { return runtime->poll(); });
  runtime_->add_room(room_);
}

// Memory that all ranks of the node map; null on all of them when one cannot.
std::shared_ptr<SharedSegment> MpiBackend::share(size_t bytes, const Signature& call,
                                                 std::string& reason) {
  struct Name {
    char text[64] = {};
  };
  Name name;
  std::shared_ptr<SharedSegment> segment;
  if (local_ == 0) {
    segment = SharedSegment::create(bytes, reason);
    if (segment) std::strncpy(name.text, segment->name().c_str(), sizeof(name.text) - 1);
  }
  name = gather_values(node_, name, call)[0];
  if (local_ != 0 && name.text[0] != '\0') segment = SharedSegment::open(name.text, bytes);
  const bool all = everywhere(node_, segment != nullptr, call);
  if (segment) segment->unlink();
  if (!all && reason.empty()) reason = "a rank of the node cannot map the memory of another";
  return all ? segment : nullptr;
}

std::shared_ptr<Storage> MpiBackend::allocate(size_t bytes, Category category, Device device) {
  if (device != kCpu) return std::make_shared<Storage>(bytes, device, category);
  const Signature call{.sequence = next_sequence(Op::allocate),
                       .count = static_cast<int64_t>(bytes),
                       .op = Op::allocate};
  std::shared_ptr<MemorySource> source;
  if (bytes > 0) runtime_->queue().run([&] { source = open_window(bytes, call); });
  return std::make_shared<Storage>(bytes, kCpu, category, source);
}

// Null, and ordinary memory on all ranks, when a node cannot.
std::shared_ptr<MemorySource> MpiBackend::open_window(size_t bytes, const Signature& call) {
  agree({.signature = call});
  const size_t stride = (bytes + 4095) / 4096 * 4096;
  std::string reason = note_;
  std::shared_ptr<SharedSegment> segment;
  if (room_) segment = share(stride * static_cast<size_t>(node_.size), call, reason);
  if (!everywhere(mesh_, segment != nullptr, call)) {
    if (note_.empty() && !reason.empty()) note_ = "collectives use ordinary memory: " + reason;
    return nullptr;
  }
  // The same number on all ranks, different from that of any other group's window.
  const uint64_t mine = (static_cast<uint64_t>(::getpid()) << 32) | ++windows_made_;
  const uint64_t id = gather_values(mesh_, mine, call)[0];
  const auto window =
      std::make_shared<Window>(id, segment, stride, node_.names, runtime_->windows());
  runtime_->windows()->add(window);
  return std::make_shared<WindowSource>(window, window->piece(runtime_->rank()));
}

std::shared_ptr<Backend> MpiBackend::split(int color, int key) {
  std::shared_ptr<MpiBackend> group;
  const Signature call{.sequence = next_sequence(Op::split), .op = Op::split};
  runtime_->queue().run([&] {
    agree({.signature = call});
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(mesh_.comm, color, key, &part), "split");
    int size = 0;
    MPI_Comm_size(part, &size);
    if (size > 1) {
      group = create(runtime_, part);
    } else {
      MPI_Comm_free(&part);
    }
  });
  if (group) group->set_delay(delay());
  return group;
}

void MpiBackend::abort(const Error& error) { runtime_->end_job(error.what(), error.exit_code()); }

void MpiBackend::launch(const std::shared_ptr<Request>& request) {
  TENON_CHECK(!runtime_->closed(), name_of(request->operation().op),
              "the world has ended: collectives are possible only while it exists");
  const bool blocking = request->operation().call.blocking;
  runtime_->queue().push([this, request] { run(request); }, blocking);
  if (blocking) wait(*request);
}

void MpiBackend::wait(Request& request) {
  if (!runtime_->queue().help([&] { return request.done(); })) request.block();
}

void MpiBackend::run(const std::shared_ptr<Request>& request) {
  request->start();
  try {
    const Operation& operation = request->operation();
    if (is_point_to_point(operation.op)) {
      runtime_->add_transfer(request, begin_transfer(mesh_.comm, *request));
      return;
    }
    run_collective(operation, request->signature());
    request->complete();
  } catch (...) {
    request->complete(std::current_exception());
  }
}

void MpiBackend::run_collective(const Operation& operation, const Signature& call) {
  const std::vector<Descriptor> all = meet(operation, call);
  if (!room_) return run_plain(operation, call);
  const bool one_node = mesh_.nodes.size() == 1;
  if (call.op == Op::barrier ? one_node : reachable(all)) return run_in_windows(operation, all);
  run_plain(operation, call);
}

// The ranks of a node always compare their calls: it costs a look at a few cache lines.
std::vector<Descriptor> MpiBackend::agree(const Descriptor& mine) {
  if (runtime_->detail()) {
    check_agreement(gather_values(mesh_, mine.signature, mine.signature), mesh_.names);
  }
  if (!room_) return {};
  const std::vector<Descriptor> all = room_->meet(mine);
  std::vector<Signature> signatures(all.size());
  std::ranges::transform(all, signatures.begin(), &Descriptor::signature);
  check_agreement(signatures, node_.names);
  return all;
}

std::vector<Descriptor> MpiBackend::meet(const Operation& operation, const Signature& call) {
  Descriptor mine{.signature = call};
  const auto place = [&](const Tensor& tensor, uint64_t& id, uint64_t& offset) {
    const auto* address = static_cast<const std::byte*>(address_of(tensor));
    const auto window = address ? runtime_->windows()->find(address) : nullptr;
    if (!window) return;
    id = window->id();
    offset = static_cast<uint64_t>(address - window->piece(runtime_->rank()));
  };
  place(operation.output, mine.output_window, mine.output_offset);
  place(operation.input, mine.input_window, mine.input_offset);
  return agree(mine);
}

// Whether the engine can do it: every rank of the node comes to the same answer.
bool MpiBackend::reachable(const std::vector<Descriptor>& all) const {
  const auto in_one_window = [&](uint64_t Descriptor::*id) {
    return all[0].*id != 0 &&
           std::ranges::all_of(all, [&](const Descriptor& d) { return d.*id == all[0].*id; });
  };
  const bool outputs = in_one_window(&Descriptor::output_window);
  const bool inputs = in_one_window(&Descriptor::input_window);
  const bool one_node = mesh_.nodes.size() == 1;
  switch (all[0].signature.op) {
    case Op::all_reduce:
      return outputs && (one_node || regular_);
    case Op::reduce_scatter:
      return inputs && (one_node || regular_);
    case Op::all_gather:
      return one_node ? outputs || inputs : outputs && regular_;
    case Op::broadcast:
      return outputs && one_node;
    default:
      return (outputs || inputs) && one_node;
  }
}

PeerOperation MpiBackend::peer_operation(const Operation& operation,
                                         const std::vector<Descriptor>& all) const {
  PeerOperation share{.what = all[0].signature, .rank = local_, .divisor = mesh_.size};
  const auto* input = static_cast<const std::byte*>(address_of(operation.input));
  auto* output = static_cast<std::byte*>(address_of(operation.output));
  const auto out_window = output ? runtime_->windows()->find(output) : nullptr;
  const auto in_window = input ? runtime_->windows()->find(input) : nullptr;
  for (size_t i = 0; i < all.size(); ++i) {
    const Descriptor& peer = all[i];
    const auto reach = [&](const std::shared_ptr<Window>& window, uint64_t id, uint64_t offset) {
      if (!window || window->id() != id) return static_cast<std::byte*>(nullptr);
      return window->piece(node_.names[i]) + offset;
    };
    share.outputs.push_back(reach(out_window, peer.output_window, peer.output_offset));
    share.inputs.push_back(reach(in_window, peer.input_window, peer.input_offset));
  }
  share.outputs[static_cast<size_t>(local_)] = output;
  share.inputs[static_cast<size_t>(local_)] = input;
  return share;
}

void MpiBackend::run_in_windows(const Operation& operation, const std::vector<Descriptor>& all) {
  const Signature& call = all[0].signature;
  if (call.op == Op::barrier || call.count == 0) return;  // the meeting was all there is to do
  PeerOperation share = peer_operation(operation, all);
  if (mesh_.nodes.size() == 1) {
    run_share(share);
    room_->part(call);
  } else {
    run_over_nodes(std::move(share));
  }
}

void MpiBackend::run_plain(const Operation& operation, const Signature& call) {
  const auto* input = static_cast<const std::byte*>(address_of(operation.input));
  auto* output = static_cast<std::byte*>(address_of(operation.output));
  if (call.op == Op::barrier) return barrier(mesh_, call);
  if (call.count == 0) return;
  switch (call.op) {
    case Op::all_reduce:
      return all_reduce(mesh_, output, call, mesh_.size);
    case Op::reduce_scatter:
      return reduce_scatter(mesh_, output, input, call, mesh_.size);
    case Op::all_gather:
      return all_gather(mesh_, output, input, call);
    case Op::all_to_all:
      return all_to_all(mesh_, output, input, call);
    default:
      return broadcast(mesh_, output, call);
  }
}

}  // namespace tenon::comm
