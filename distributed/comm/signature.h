// What the ranks of a group must agree on before a collective may begin.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tenon/core/dtype.h"
#include "tenon/kernels/rank_reduce.h"

namespace tenon::comm {

enum class Op : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  barrier,
  split,
  allocate,
  send,
  recv
};
const char* name_of(Op op);
constexpr bool is_point_to_point(Op op) { return op >= Op::send; }

// Plain data: it also lies in memory that processes share.
struct Signature {
  uint64_t sequence = 0;  // collectives of the group, from 1
  int64_t count = 0;      // elements; of a gather, scatter or all-to-all: of one rank's part
  int32_t peer = -1;      // root, destination or source
  Op op = Op::barrier;
  DType dtype = DType::f32;
  kernels::ReduceOp reduce = kernels::ReduceOp::sum;
  bool operator==(const Signature&) const = default;
};

// "call 5, all_reduce (sum) of 100 f32"
std::string describe(const Signature& signature);

// Empty when all agree; otherwise the text of an error that names the first rank that differs from
// rank 0 and what both called. `ranks[i]` is the number of the rank of signatures[i].
std::string disagreement(std::span<const Signature> signatures, std::span<const int> ranks);

}  // namespace tenon::comm
