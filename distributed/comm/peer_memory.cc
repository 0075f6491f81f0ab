#include "tenon/distributed/comm/peer_memory.h"

#include <algorithm>
#include <cstring>

#include "tenon/core/check.h"

namespace tenon::comm {
namespace {

void reduce_range(const PeerOperation& operation, Range range, int64_t source_offset,
                  const std::vector<std::byte*>& destinations) {
  if (range.size == 0) return;
  const auto width = static_cast<int64_t>(size_of(operation.what.dtype));
  std::vector<const void*> from(operation.inputs.size());
  std::ranges::transform(operation.inputs, from.begin(), [&](const std::byte* input) {
    return input + (source_offset + range.begin) * width;
  });
  std::vector<void*> to(destinations.size());
  std::ranges::transform(destinations, to.begin(),
                         [&](std::byte* output) { return output + range.begin * width; });
  kernels::rank_reduce(DeviceType::cpu, {.sources = from,
                                         .destinations = to,
                                         .count = range.size,
                                         .dtype = operation.what.dtype,
                                         .op = operation.what.reduce,
                                         .divisor = operation.divisor});
}

// Part `to` of a's output is part `from` of b's input, for a = this rank and b = each peer, or the
// other way round when only the outputs can be reached.
template <class PartOfInput, class PartOfOutput>
void move_parts(const PeerOperation& operation, PartOfInput from, PartOfOutput to) {
  const size_t bytes = static_cast<size_t>(operation.what.count) * size_of(operation.what.dtype);
  const auto at = [&](int part) { return static_cast<size_t>(part) * bytes; };
  const int size = static_cast<int>(operation.inputs.size());
  const int me = operation.rank;
  const bool pull = std::ranges::find(operation.inputs, nullptr) == operation.inputs.end();
  for (int i = 0; i < size; ++i) {
    const int peer = (me + i) % size;  // not all ranks at the same memory at once
    const int reader = pull ? me : peer;
    const int writer = pull ? peer : me;
    copy_memory(operation.outputs[static_cast<size_t>(reader)] + at(to(writer)),
                operation.inputs[static_cast<size_t>(writer)] + at(from(reader)), bytes);
  }
}

}  // namespace

Range part_of(int64_t count, int parts, int index, DType dtype) {
  const auto line = static_cast<int64_t>(64 / size_of(dtype));
  const int64_t size = ((count + parts - 1) / parts + line - 1) / line * line;
  const int64_t begin = std::min(size * index, count);
  return {begin, std::min(size, count - begin)};
}

void copy_memory(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

void run_share(const PeerOperation& operation) {
  const Signature& what = operation.what;
  const auto me = static_cast<size_t>(operation.rank);
  const int size = static_cast<int>(operation.inputs.size());
  if (what.count == 0) return;
  switch (what.op) {
    case Op::all_reduce:
      return reduce_range(operation, part_of(what.count, size, operation.rank, what.dtype), 0,
                          operation.outputs);
    case Op::reduce_scatter:
      return reduce_range(operation, {0, what.count}, operation.rank * what.count,
                          {operation.outputs[me]});
    case Op::broadcast:
      return copy_memory(operation.outputs[me], operation.outputs[static_cast<size_t>(what.peer)],
                         static_cast<size_t>(what.count) * size_of(what.dtype));
    case Op::all_gather:
      return move_parts(
          operation, [](int) { return 0; }, [](int writer) { return writer; });
    case Op::all_to_all:
      return move_parts(
          operation, [](int reader) { return reader; }, [](int writer) { return writer; });
    default:
      return;  // a barrier and the like have no share
  }
}

}  // namespace tenon::comm
