// A LoopPlan on the device: from the number of an element of the walk to its place in N operands.
#pragma once

#include <cstdint>

#include "tenon/kernels/cuda/simt.h"
#include "tenon/kernels/loop_plan.h"

namespace tenon::kernels::cuda {

template <int N>
struct Offsets {
  int64_t at[N];  // in elements
};

// Divides by a multiplication: a 64-bit division is a long subroutine. 32-bit numbers lie below
// 2^31 and 64-bit ones below 2^63.
struct Divisor {
  __extension__ using Product = unsigned __int128;

  Divisor() = default;
  explicit Divisor(int64_t divisor) {
    const auto d = static_cast<uint64_t>(divisor);
    if (d <= 1) return;
    while (uint64_t{2} << shift < d) ++shift;  // 2^shift < d <= 2^(shift + 1)
    // The error of the rounded up multiplier is below d, which costs less than 1 / d.
    multiplier = static_cast<uint64_t>((((Product{1} << 64) << shift) + d - 1) / d);
    small = static_cast<uint32_t>((((uint64_t{1} << 32) << (shift & 31)) + d - 1) / d);
  }
  __device__ uint32_t divide(uint32_t n) const {
    return static_cast<uint32_t>(uint64_t{n} * small >> 32) >> shift;
  }
  __device__ int64_t divide(int64_t n) const {
    if (multiplier == 0) return n;  // by 1
    const auto high = static_cast<uint64_t>((Product{static_cast<uint64_t>(n)} * multiplier) >> 64);
    return static_cast<int64_t>(high >> shift);
  }

  uint64_t multiplier = 0;  // 0 for the divisor 1, which is not divided by
  uint32_t small = 0;       // the multiplier for 32-bit numbers; the divisor is then one itself
  int shift = 0;
};

template <int N>
struct Walk {
  // Operands [first, first + N) of `plan`.
  explicit Walk(const LoopPlan& plan, int first = 0) : dims(plan.dims), count(plan.count) {
    for (int dim = 0; dim < dims; ++dim) {
      sizes[dim] = plan.sizes[static_cast<size_t>(dim)];
      divisors[dim] = Divisor(sizes[dim]);
      for (int k = 0; k < N; ++k) strides[k][dim] = plan.stride(first + k, dim);
    }
  }

  __device__ Offsets<N> place(int64_t index) const {
    return count < int64_t{1} << 31 ? place_of(static_cast<uint32_t>(index)) : place_of(index);
  }
  template <class Index>
  __device__ Offsets<N> place_of(Index index) const {
    Offsets<N> result{};
#pragma unroll 1  // halves the code of the many kernels that walk
    for (int dim = dims - 1; dim > 0; --dim) {
      const Index next = divisors[dim].divide(index);
      const Index rest = index - next * static_cast<Index>(sizes[dim]);
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] += static_cast<int64_t>(rest) * strides[k][dim];
      index = next;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] += static_cast<int64_t>(index) * strides[k][0];
    return result;
  }

  // Whether groups of V elements of the walk are groups of memory in every operand.
  bool packs(int64_t vector) const {
    if (sizes[dims - 1] % vector != 0) return false;
    for (int k = 0; k < N; ++k) {
      if (strides[k][dims - 1] != 1 || !starts_groups(vector, k, dims - 1)) return false;
    }
    return true;
  }
  // Whether the places of the outer `until` dimensions are multiples of `vector`.
  bool starts_groups(int64_t vector, int operand, int until) const {
    for (int dim = 0; dim < until; ++dim) {
      if (sizes[dim] > 1 && strides[operand][dim] % vector != 0) return false;
    }
    return true;
  }

  int dims;
  int64_t count;
  int64_t sizes[kMaxDims] = {};
  Divisor divisors[kMaxDims];
  int64_t strides[N][kMaxDims] = {};
};

}  // namespace tenon::kernels::cuda
