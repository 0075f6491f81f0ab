// Sums of powers over a list of tensors, for gradient norms. The sum is taken over blocks that
// depend on the sizes of the tensors alone, so its bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/chunk_operand.h"
#include "tenon/kernels/cpu/row_math.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels {
namespace {

using cpu::ChunkOperand;
using cpu::kChunk;

constexpr int64_t kBlock = 32 << 10;  // elements

enum class Power { one, two, any, infinity };

struct Block {
  const Tensor* tensor;
  int64_t begin;
};

template <Power power, class C>
double chunk_sum(const C* x, int64_t n, C p) {
  const auto size = [x](int64_t i) { return x[i] < C(0) ? -x[i] : x[i]; };
  if constexpr (power == Power::one) return static_cast<double>(cpu::sum_of<C>(n, size));
  if constexpr (power == Power::two) return static_cast<double>(cpu::row_dot(x, x, n));
  if constexpr (power == Power::infinity) {
    return static_cast<double>(
        cpu::fold_lanes(n, C(0), size, [](C a, C b) { return a > b || a != a ? a : b; }));
  }
  return static_cast<double>(
      cpu::sum_of<C>(n, [=](int64_t i) { return math::exp(p * math::log(size(i))); }));
}

double join(Power power, double a, double b) {
  if (power != Power::infinity) return a + b;
  return a > b || a != a ? a : b;
}

template <Power power, class C>
double block_sum(const Block& block, double p) {
  const LoopPlan plan = LoopPlan::of({block.tensor});
  const ChunkOperand<C> operand(plan, 0, *block.tensor);
  alignas(64) C buffer[kChunk];
  double sum = 0;
  const int64_t end = std::min(block.begin + kBlock, plan.count);
  int64_t n = 0;
  for (int64_t at = block.begin; at < end; at += n) {
    n = cpu::chunk_length(plan, at, end);
    sum = join(power, sum, chunk_sum<power, C>(operand.load(at, n, buffer), n, static_cast<C>(p)));
  }
  return sum;
}

template <Power power>
double total(const std::vector<Tensor>& tensors, double p) {
  std::vector<Block> blocks;
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += static_cast<int64_t>(tensor.nbytes());
    for (int64_t begin = 0; begin < tensor.numel(); begin += kBlock) {
      blocks.push_back({&tensor, begin});
    }
  }
  std::vector<double> sums(blocks.size());
  parallel_for(static_cast<int64_t>(blocks.size()), bytes, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      dispatch_types<float, double>(
          compute_dtype(blocks[i].tensor->dtype()), "power_sum",
          [&]<class C>() { sums[i] = block_sum<power, C>(blocks[i], p); });
    }
  });
  double result = 0;
  for (const double sum : sums) result = join(power, result, sum);
  return result;
}

void power_sum_cpu(const std::vector<Tensor>& tensors, double p, Tensor& out) {
  TENON_CHECK(p > 0, "power_sum", "the power must be positive: given ", p);
  double& result = *out.data<double>();
  if (std::isinf(p)) {
    result = total<Power::infinity>(tensors, p);
  } else if (p == 2) {
    result = total<Power::two>(tensors, p);
  } else if (p == 1) {
    result = total<Power::one>(tensors, p);
  } else {
    result = total<Power::any>(tensors, p);
  }
}

[[maybe_unused]] const bool registered = power_sum.set(DeviceType::cpu, power_sum_cpu);

}  // namespace
}  // namespace tenon::kernels
