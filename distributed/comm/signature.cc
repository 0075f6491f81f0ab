#include "tenon/distributed/comm/signature.h"

#include "tenon/core/check.h"
#include "tenon/distributed/comm/process_group.h"

namespace tenon::comm {

const char* name_of(Op op) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                    "all_to_all", "barrier",    "split",          "allocate",
                                    "send",       "recv"};
  return kNames[static_cast<int>(op)];
}

std::string describe(const Signature& s) {
  std::string text = str("call ", s.sequence, ", ", name_of(s.op));
  if (s.op == Op::all_reduce || s.op == Op::reduce_scatter) {
    text += str(" (", tenon::name_of(s.reduce), ")");
  }
  if (s.op == Op::allocate) return text + str(" of ", s.count, " bytes");
  if (s.op == Op::barrier || s.op == Op::split) return text;
  text += str(" of ", s.count, " ", s.dtype);
  if (s.op == Op::broadcast || s.op == Op::recv) text += str(" from rank ", s.peer);
  if (s.op == Op::send) text += str(" to rank ", s.peer);
  return text;
}

std::string disagreement(std::span<const Signature> signatures, std::span<const int> ranks) {
  for (size_t i = 1; i < signatures.size(); ++i) {
    if (signatures[i] == signatures[0]) continue;
    return str("[", name_of(signatures[0].op), "] ranks call different collectives: rank ",
               ranks[0], ": ", describe(signatures[0]), "; rank ", ranks[i], ": ",
               describe(signatures[i]), "; wanted the same on every rank");
  }
  return {};
}

}  // namespace tenon::comm
