#include "tenon/distributed/comm/process_group.h"

#include <utility>

#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/distributed/comm/backend.h"
#include "tenon/distributed/comm/device_group.h"

namespace tenon {
namespace {

using comm::Op;
using comm::Operation;

void check_tensor(const char* op, const char* what, const Tensor& tensor) {
  TENON_CHECK(tensor.defined(), op, what, " is undefined, wanted a tensor");
  TENON_CHECK(tensor.is_contiguous(), op, what, " is not contiguous: given ", describe(tensor),
              " with strides ", tensor.strides(), ", wanted a row-major tensor without gaps");
}

void check_reduction(const char* op, const Tensor& tensor, ReduceOp reduce) {
  const DType dtype = tensor.dtype();
  TENON_CHECK(is_floating(dtype) || dtype == DType::i64, op, "no reduction of ", dtype, ": given ",
              describe(tensor), ", wanted f32, bf16, f16, f64 or i64");
  TENON_CHECK(reduce != ReduceOp::mean || dtype != DType::i64, op, "no mean of i64: given ",
              describe(tensor), ", wanted a floating dtype or sum");
}

// `whole` is made of `ranks` parts like `part`; either they do not overlap or `part` is whole's
// own part number `rank`.
void check_parts(const char* op, const Tensor& whole, const Tensor& part, int ranks, int rank) {
  check_same_dtype(op, whole, part);
  TENON_CHECK(whole.numel() == part.numel() * ranks, op, "sizes do not fit: given ",
              describe(whole), " and a part ", describe(part), ", wanted ", ranks,
              " parts of equal size");
  if (whole.storage() != part.storage()) return;
  const int64_t distance = part.offset() - whole.offset();
  const bool apart = distance >= whole.numel() || -distance >= part.numel();
  TENON_CHECK(apart || distance == rank * part.numel(), op,
              "input and output overlap: the part begins at element ", distance,
              " of the whole, wanted separate memory or the rank's own part, element ",
              rank * part.numel());
}

void check_all_to_all(const Tensor& output, const Tensor& input, int ranks) {
  check_same_dtype("all_to_all", output, input);
  TENON_CHECK(output.numel() == input.numel() && input.numel() % ranks == 0, "all_to_all",
              "sizes do not fit: given output ", describe(output), " and input ", describe(input),
              ", wanted equal sizes that ", ranks, " ranks divide");
  TENON_CHECK(output.storage() != input.storage() ||
                  output.offset() >= input.offset() + input.numel() ||
                  input.offset() >= output.offset() + output.numel(),
              "all_to_all", "input and output overlap, wanted separate memory");
}

void check_rank(const char* op, const char* what, int rank, int size) {
  TENON_CHECK(rank >= 0 && rank < size, op, what, " is not in the group: given ", rank,
              ", wanted 0 to ", size - 1);
}

// A group of one: every collective is at most a copy.
void run_alone(const Operation& operation) {
  const void* from = comm::address_of(operation.input);
  void* to = comm::address_of(operation.output);
  if (from == nullptr || from == to) return;
  copy_bytes(to, operation.output.device(), from, operation.input.device(),
             operation.input.nbytes());
}

void check_device(const comm::Backend& backend, const Operation& operation, const Tensor& tensor) {
  if (!tensor.defined()) return;
  TENON_CHECK(backend.serves(tensor.device()), name_of(operation.op),
              "this group does not reach the tensor's device: given ", describe(tensor),
              ", wanted ", backend.serving(), " (World::use chooses the device)");
  check_same_device(name_of(operation.op), operation.part(), tensor);
}

}  // namespace

int ProcessGroup::rank() const { return backend_ ? backend_->rank() : 0; }
int ProcessGroup::size() const { return backend_ ? backend_->size() : 1; }

Work ProcessGroup::launch(Operation operation) const {
  if (backend_) {
    check_device(*backend_, operation, operation.output);
    check_device(*backend_, operation, operation.input);
  }
  // A gather gives a buffer the values of another; whose version it then has is up to the caller.
  if (operation.output.defined() && operation.op != Op::all_gather) {
    operation.output.bump_version();
  }
  if (!backend_) {
    run_alone(operation);
    return {};
  }
  const Tensor& counted = operation.larger();
  rank_context().traffic.add(operation.call.tag,
                             counted.defined() ? static_cast<int64_t>(counted.nbytes()) : 0);
  const comm::Signature signature =
      operation.signature(backend_->next_sequence(operation.op), size());
  const auto request = std::make_shared<comm::Request>(std::move(operation), backend_, signature);
  backend_->launch(request);
  return Work(request);
}

Work ProcessGroup::all_reduce(Tensor inout, ReduceOp op, Call call) {
  check_tensor("all_reduce", "the tensor", inout);
  check_reduction("all_reduce", inout, op);
  return launch(
      {.op = Op::all_reduce, .output = inout, .input = inout, .reduce = op, .call = call});
}

Work ProcessGroup::all_gather(Tensor output, const Tensor& input, Call call) {
  check_tensor("all_gather", "the output", output);
  check_tensor("all_gather", "the input", input);
  check_parts("all_gather", output, input, size(), rank());
  return launch({.op = Op::all_gather, .output = output, .input = input, .call = call});
}

Work ProcessGroup::reduce_scatter(Tensor output, const Tensor& input, ReduceOp op, Call call) {
  check_tensor("reduce_scatter", "the output", output);
  check_tensor("reduce_scatter", "the input", input);
  check_reduction("reduce_scatter", input, op);
  check_parts("reduce_scatter", input, output, size(), rank());
  return launch(
      {.op = Op::reduce_scatter, .output = output, .input = input, .reduce = op, .call = call});
}

Work ProcessGroup::broadcast(Tensor inout, int root, Call call) {
  check_tensor("broadcast", "the tensor", inout);
  check_rank("broadcast", "the root", root, size());
  return launch({.op = Op::broadcast, .output = inout, .input = inout, .peer = root, .call = call});
}

Work ProcessGroup::all_to_all(Tensor output, const Tensor& input, Call call) {
  check_tensor("all_to_all", "the output", output);
  check_tensor("all_to_all", "the input", input);
  check_all_to_all(output, input, size());
  return launch({.op = Op::all_to_all, .output = output, .input = input, .call = call});
}

Work ProcessGroup::send(const Tensor& tensor, int to, Call call) {
  check_tensor("send", "the tensor", tensor);
  check_rank("send", "the destination", to, size());
  TENON_CHECK(to != rank(), "send", "the destination is this rank itself: given ", to,
              ", wanted another rank");
  return launch({.op = Op::send, .input = tensor, .peer = to, .call = call});
}

Work ProcessGroup::recv(Tensor tensor, int from, Call call) {
  check_tensor("recv", "the tensor", tensor);
  check_rank("recv", "the source", from, size());
  TENON_CHECK(from != rank(), "recv", "the source is this rank itself: given ", from,
              ", wanted another rank");
  return launch({.op = Op::recv, .output = tensor, .peer = from, .call = call});
}

Work ProcessGroup::barrier(Call call) { return launch({.op = Op::barrier, .call = call}); }

ProcessGroup ProcessGroup::split(int color, int key) const {
  TENON_CHECK(color >= 0, "split", "wrong color: given ", color, ", wanted 0 or more");
  return backend_ ? ProcessGroup(backend_->split(color, key)) : ProcessGroup();
}

std::shared_ptr<Storage> ProcessGroup::allocate(size_t bytes, Category category, Device device) {
  if (!backend_) return std::make_shared<Storage>(bytes, device, category);
  return backend_->allocate(bytes, category, device);
}

ProcessGroup ProcessGroup::with_device(Device device) const {
  if (!backend_ || device == kCpu) return *this;
  return ProcessGroup(comm::add_device(backend_, device));
}

std::string ProcessGroup::note() const { return backend_ ? backend_->note() : std::string(); }

void ProcessGroup::abort(const Error& error) {
  if (!backend_) throw error;
  backend_->abort(error);
}

void ProcessGroup::set_delay(DelayFunction delay) {
  if (backend_) backend_->set_delay(std::move(delay));
}

}  // namespace tenon
