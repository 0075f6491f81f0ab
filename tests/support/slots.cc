#include "tenon/tests/support/slots.h"

#include <iterator>

#include "tenon/kernels/attention.h"
#include "tenon/kernels/conv.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/embedding.h"
#include "tenon/kernels/loss.h"
#include "tenon/kernels/matmul.h"
#include "tenon/kernels/norm.h"
#include "tenon/kernels/optimizer.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/pool.h"
#include "tenon/kernels/random.h"
#include "tenon/kernels/rank_reduce.h"
#include "tenon/kernels/reduce.h"
#include "tenon/kernels/rotary.h"
#include "tenon/kernels/softmax.h"

namespace tenon::testing {
namespace {

template <size_t N>
Slots list(const KernelSlotBase* const (&slots)[N]) {
  return Slots(std::begin(slots), std::end(slots));
}

}  // namespace

std::map<std::string, Slots> slots_by_header() {
  return {{"attention.h", list(kernels::kAttentionSlots)},
          {"conv.h", list(kernels::kConvSlots)},
          {"copy.h", list(kernels::kCopySlots)},
          {"embedding.h", list(kernels::kEmbeddingSlots)},
          {"loss.h", list(kernels::kLossSlots)},
          {"matmul.h", list(kernels::kMatmulSlots)},
          {"norm.h", list(kernels::kNormSlots)},
          {"optimizer.h", list(kernels::kOptimizerSlots)},
          {"pointwise.h", list(kernels::kPointwiseSlots)},
          {"pool.h", list(kernels::kPoolSlots)},
          {"random.h", list(kernels::kRandomSlots)},
          {"rank_reduce.h", list(kernels::kRankReduceSlots)},
          {"reduce.h", list(kernels::kReduceSlots)},
          {"rotary.h", list(kernels::kRotarySlots)},
          {"softmax.h", list(kernels::kSoftmaxSlots)}};
}

Slots all_slots() {
  Slots all;
  const auto add = [&](const Slots& slots) { all.insert(all.end(), slots.begin(), slots.end()); };
  for (const auto& [header, slots] : slots_by_header()) add(slots);
  add(kernels::unary_slots(kernels::UnaryOps{}));
  add(kernels::binary_slots(kernels::BinaryOps{}));
  add(kernels::comparison_slots(kernels::ComparisonOps{}));
  return all;
}

}  // namespace tenon::testing
