#include "tenon/kernels/permuted_plan.h"

#include <array>

namespace tenon::kernels {
namespace {

// The dimension along which `from` is dense, or -1.
int dense_dim(const LoopPlan& plan) {
  for (int dim = 0; dim + 1 < plan.dims; ++dim) {
    if (plan.stride(1, dim) == 1 && plan.sizes[static_cast<size_t>(dim)] > 1) return dim;
  }
  return -1;
}

// The plan without its last dimension and `dim`.
LoopPlan without_tile(const LoopPlan& plan, int dim) {
  Shape shape;
  std::array<Strides, 2> strides;
  for (int i = 0; i + 1 < plan.dims; ++i) {
    if (i == dim) continue;
    shape.push_back(plan.sizes[static_cast<size_t>(i)]);
    for (size_t k = 0; k < 2; ++k) strides[k].push_back(plan.stride(static_cast<int>(k), i));
  }
  const std::array<const Strides*, 2> pointers{&strides[0], &strides[1]};
  return LoopPlan(shape, pointers);
}

}  // namespace

std::optional<PermutedPlan> permuted_plan(const LoopPlan& plan) {
  if (plan.inner_stride(0) != 1 || plan.inner_stride(1) <= 1 || plan.inner() <= 1) return {};
  const int dim = dense_dim(plan);
  if (dim < 0) return {};
  return PermutedPlan{without_tile(plan, dim), plan.sizes[static_cast<size_t>(dim)], plan.inner(),
                      plan.stride(0, dim), plan.inner_stride(1)};
}

}  // namespace tenon::kernels
