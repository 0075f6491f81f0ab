// The driver of the elementwise kernels: out = f(in…) over operands of any strides and dtypes. A
// thread takes a group of V neighbours in memory, 16 bytes of the widest operand; where all
// operands are dense the walk is one row of groups, and a thread has several of them in flight.
// What an element becomes does not depend on the group it lies in.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "tenon/core/cuda/context.h"
#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cuda/element.h"
#include "tenon/kernels/cuda/walk.h"

namespace tenon::kernels::cuda {

inline constexpr int kMapBlock = 256;    // threads
inline constexpr int kBlocksPerSm = 32;  // at most, for grids that loop

// Elements of a group: 16 bytes of the widest type, at most 8.
template <class... Types>
inline constexpr int kGroup = std::clamp(16 / static_cast<int>(std::max({sizeof(Types)...})), 2, 8);

// Groups of dense operands that a thread has in flight.
template <class... In>
inline constexpr int kUnroll = sizeof...(In) > 1 ? 1 : 2;

// Blocks for `work` units of `unit` a block, which the kernel takes in a loop over the grid.
inline unsigned grid_for(Device device, int64_t work, int64_t unit) {
  const int64_t most = int64_t{kBlocksPerSm} * tenon::cuda::properties(device).multiProcessorCount;
  return static_cast<unsigned>(std::min((work + unit - 1) / unit, most));
}

// The walk of N operands in groups of V elements along the innermost dimension.
template <int N>
class Groups {
 public:
  // `data` and `sizes` (of an element) are the operands'; null data is an operand that is not
  // there.
  Groups(const LoopPlan& plan, int vector, const std::array<const void*, N>& data,
         const std::array<size_t, N>& sizes)
      : rows_(outer(plan)),
        inner_(plan.inner()),
        in_row_((inner_ + vector - 1) / vector),
        by_row_(in_row_) {
    count_ = rows_.count * in_row_;
    flat_ = rows_.count == 1;
    for (int k = 0; k < N; ++k) {
      const auto at = static_cast<size_t>(k);
      strides_[k] = plan.inner_stride(k);
      if (data[at] == nullptr) continue;
      const size_t bytes = std::min<size_t>(sizes[at] * static_cast<size_t>(vector), 16);
      const bool whole = strides_[k] == 1 && reinterpret_cast<uintptr_t>(data[at]) % bytes == 0 &&
                         rows_.starts_groups(vector, k, rows_.dims);
      if (whole) whole_ |= 1u << k;
      flat_ = flat_ && whole;
    }
  }

  // The operand is also walked from places that are multiples of `stride` away.
  void shift_by(int operand, int64_t stride, int vector) {
    if (stride % vector == 0) return;
    whole_ &= ~(1u << operand);
    flat_ = false;
  }

  TENON_HD int64_t count() const { return count_; }
  // Dense operands: element i of the walk is element i of each.
  TENON_HD bool flat() const { return flat_; }

  struct Place {
    Offsets<N> offsets;  // of the group's first element
    int64_t left;        // elements of the row from there on
  };
  template <int V>
  __device__ Place place(int64_t group) const {
    int64_t row = 0, column = group;
    if (rows_.count > 1) {
      row = group_row(group);
      column = group - row * in_row_;
    }
    Place result{rows_.place(row), inner_ - column * V};
#pragma unroll
    for (int k = 0; k < N; ++k) result.offsets.at[k] += column * V * strides_[k];
    return result;
  }
  // The elements of operand `operand` at `place`.
  template <int V, class T>
  __device__ Packed<T, V> load(const T* data, int operand, const Place& place) const {
    Packed<T, V> values{};
    data += place.offsets.at[operand];
    if (place.left >= V && is_whole(operand)) return load_packed<V>(data);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (j < place.left) values.value[j] = data[j * strides_[operand]];
    }
    return values;
  }
  template <int V, class T>
  __device__ void store(T* data, int operand, const Place& place,
                        const Packed<T, V>& values) const {
    data += place.offsets.at[operand];
    if (place.left >= V && is_whole(operand)) return store_packed(data, values);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (j < place.left) data[j * strides_[operand]] = values.value[j];
    }
  }

 private:
  static LoopPlan outer(LoopPlan plan) {
    if (plan.dims > 1) {
      plan.count /= std::max<int64_t>(plan.inner(), 1);
      --plan.dims;
      return plan;
    }
    plan.count = plan.sizes[0] = 1;
    for (auto& strides : plan.strides) strides[0] = 0;
    return plan;
  }
  __device__ bool is_whole(int operand) const { return (whole_ >> operand & 1u) != 0; }
  __device__ int64_t group_row(int64_t group) const {
    if (in_row_ == 1) return group;
    if (count_ < int64_t{1} << 31) return by_row_.divide(static_cast<uint32_t>(group));
    return by_row_.divide(group);
  }

  Walk<N> rows_;
  int64_t inner_;
  int64_t in_row_;  // groups
  Divisor by_row_;
  int64_t count_ = 0;
  int64_t strides_[N];
  unsigned whole_ = 0;  // operands whose groups of V are aligned groups of memory
  bool flat_ = false;
};

template <class To, class From>
__device__ To to_element(From value) {
  return static_cast<To>(value);
}
template <class T>
__device__ Compute<T> to_compute(T value) {
  return static_cast<Compute<T>>(value);
}

// f of each of V elements.
template <class Out, int V, class F, class... In>
__device__ Packed<Out, V> map_group(const F& f, const Packed<In, V>&... in) {
  Packed<Out, V> result;
#pragma unroll
  for (int j = 0; j < V; ++j) result.value[j] = to_element<Out>(f(to_compute(in.value[j])...));
  return result;
}

// Functors that may be launched with undefined inputs have a type MayLackInputs.
template <class F>
__device__ bool lacks(const void* input) {
  if constexpr (requires { typename F::MayLackInputs; }) return input == nullptr;
  return false;
}

template <int V, class F, class Out, class... In>
__device__ void map_flat(const F& f, int64_t count, Out* out, const In*... in) {
  constexpr int kLoads = kUnroll<In...>;
  const int64_t whole = count / V;
  const int64_t step = int64_t{gridDim.x} * kMapBlock * kLoads;
  for (int64_t first = int64_t{blockIdx.x} * kMapBlock * kLoads + threadIdx.x; first < whole;
       first += step) {
    std::tuple<Packed<In, V>...> loaded[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t group = first + u * kMapBlock;
      if (group >= whole) continue;
      loaded[u] = {lacks<F>(in) ? Packed<In, V>{} : load_packed<V>(in + group * V)...};
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int64_t group = first + u * kMapBlock;
      if (group >= whole) continue;
      store_packed(out + group * V, std::apply(
                                        [&](const Packed<In, V>&... values) {
                                          return map_group<Out, V>(f, values...);
                                        },
                                        loaded[u]));
    }
  }
  const int64_t rest = whole * V + threadIdx.x;
  if (blockIdx.x == 0 && rest < count) {
    out[rest] = to_element<Out>(f(to_compute(lacks<F>(in) ? In{} : in[rest])...));
  }
}

template <int V, class F, class Out, class... In>
__global__ void __launch_bounds__(kMapBlock, 2)
    map_kernel(F f, Groups<1 + sizeof...(In)> groups, int64_t count, Out* out, const In*... in) {
  if (groups.flat()) return map_flat<V>(f, count, out, in...);
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t group = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; group < groups.count();
       group += step) {
    const auto place = groups.template place<V>(group);
    int operand = 0;
    const std::tuple<Packed<In, V>...> loaded{
        (++operand,
         lacks<F>(in) ? Packed<In, V>{} : groups.template load<V>(in, operand, place))...};
    groups.template store<V>(
        out, 0, place,
        std::apply([&](const Packed<In, V>&... values) { return map_group<Out, V>(f, values...); },
                   loaded));
  }
}

// body<Bits>() with an unsigned type of `size` bytes, for kernels that only move elements.
template <class Body>
void with_bits(size_t size, const Body& body) {
  switch (size) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      return body.template operator()<uint64_t>();
  }
}

template <class T>
T* data_or_null(const Tensor& tensor) {
  const bool exists = tensor.defined() && tensor.numel() > 0;
  return exists ? static_cast<T*>(tensor.raw_data()) : nullptr;
}

// The groups of operands of one shape; those that are undefined have strides of 0. Of the types
// only the sizes count: not inlined, because kernels are many.
template <int N>
[[gnu::noinline]] Groups<N> groups_of(int vector, const std::array<const Tensor*, N>& operands,
                                      const std::array<size_t, N>& sizes) {
  Strides nowhere = operands[0]->strides();
  for (int i = 0; i < nowhere.size(); ++i) nowhere[i] = 0;
  std::array<const Strides*, N> strides;
  std::array<const void*, N> data;
  for (size_t k = 0; k < N; ++k) {
    strides[k] = operands[k]->defined() ? &operands[k]->strides() : &nowhere;
    data[k] = data_or_null<void>(*operands[k]);
  }
  return Groups<N>(LoopPlan(operands[0]->shape(), strides), vector, data, sizes);
}

// out = f(in…), f from the compute types of the inputs to that of the output; Out and In are what
// the tensors hold. out may be one of the inputs. An undefined input is read as zeros if
// F::MayLackInputs exists.
template <class Out, class... In, class F, class... Tensors>
void map_elements(const char* op, const F& f, const Tensor& out, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  constexpr int kOperands = 1 + sizeof...(In);
  constexpr int kVector = kGroup<Out, In...>;
  if (out.numel() == 0) return;
  const auto groups = groups_of<kOperands>(kVector, {&out, &in...}, {sizeof(Out), sizeof(In)...});
  const int64_t unit = groups.flat() ? kMapBlock * kUnroll<In...> : kMapBlock;
  simt::launch(op, map_kernel<kVector, F, Out, In...>, grid_for(out.device(), groups.count(), unit),
               kMapBlock, 0, tenon::cuda::stream_of(out), f, groups, out.numel(),
               data_or_null<Out>(out), data_or_null<const In>(in)...);
}

}  // namespace tenon::kernels::cuda
