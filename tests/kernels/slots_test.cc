// Every declared kernel slot is filled for the CPU, and no header forgets to list one.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

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
#include "tenon/kernels/softmax.h"

namespace tenon {
namespace {

using Slots = std::vector<const KernelSlotBase*>;

template <size_t N>
Slots list(const KernelSlotBase* const (&slots)[N]) {
  return Slots(std::begin(slots), std::end(slots));
}

// The slots of each header.
std::map<std::string, Slots> slots_by_header() {
  return {{"conv.h", list(kernels::kConvSlots)},
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
          {"softmax.h", list(kernels::kSoftmaxSlots)}};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void check_filled(const Slots& slots) {
  for (const KernelSlotBase* slot : slots) {
    INFO(slot->op());
    CHECK(slot->filled(DeviceType::cpu));
  }
}

}  // namespace

TEST_CASE("every kernel slot is filled for the CPU") {
  for (const auto& [header, slots] : slots_by_header()) {
    INFO(header);
    check_filled(slots);
  }
  check_filled(kernels::unary_slots(kernels::UnaryOps{}));
  check_filled(kernels::binary_slots(kernels::BinaryOps{}));
  check_filled(kernels::comparison_slots(kernels::ComparisonOps{}));
}

TEST_CASE("every header of kernels lists all of its slots") {
  const std::map<std::string, Slots> known = slots_by_header();
  size_t headers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("kernels")) {
    if (entry.path().extension() != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string name = entry.path().filename();
    INFO(name);
    // pointwise.h declares 5 more in the templates of its lists.
    const size_t in_templates = name == "pointwise.h" ? 5 : 0;
    const auto found = known.find(name);
    const size_t listed = found == known.end() ? 0 : found->second.size();
    CHECK(count(text.str(), "KernelSlot<") == listed + in_templates);
    ++headers;
  }
  CHECK(headers >= known.size());
}

}  // namespace tenon
