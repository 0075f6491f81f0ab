// Copies between dtypes and layouts, and fill, on the GPU.
#include "tenon/kernels/copy.h"

#include <cstring>

#include "tenon/core/cuda/check.h"
#include "tenon/kernels/cuda/permuted_copy.h"
#include "tenon/kernels/cuda/strided.h"

namespace tenon::kernels::cuda {
namespace {

template <class To>
struct Convert {
  template <class C>
  __device__ auto operator()(C value) const {
    if constexpr (std::is_same_v<To, bool>) {
      return value != C(0);
    } else {
      return static_cast<Compute<To>>(value);
    }
  }
};

struct Same {
  template <class Bits>
  __device__ Bits operator()(Bits bits) const {
    return bits;
  }
};

// Elements of both follow each other in the same order.
bool is_one_block(const LoopPlan& plan) {
  return plan.dims == 1 && plan.inner_stride(0) == 1 && plan.inner_stride(1) == 1;
}

void copy_same_type(const LoopPlan& plan, const Tensor& from, Tensor& to) {
  if (is_one_block(plan)) {
    tenon::cuda::check(cudaMemcpyAsync(to.raw_data(), from.raw_data(), to.nbytes(),
                                       cudaMemcpyDeviceToDevice, tenon::cuda::stream_of(to)),
                       "copy", "cudaMemcpyAsync");
    return;
  }
  with_bits(size_of(to.dtype()),
            [&]<class Bits>() { map_elements<Bits, Bits>("copy", Same(), to, from); });
}

void copy_cuda(const Tensor& from, Tensor& to) {
  if (to.numel() == 0) return;
  const LoopPlan plan = LoopPlan::of({&to, &from});
  if (const auto permuted = permuted_plan(plan); permuted && copy_permuted(*permuted, from, to)) {
    return;
  }
  if (from.dtype() == to.dtype()) return copy_same_type(plan, from, to);
  // A bool is read as the 0 or 1 that it is.
  const DType type = from.dtype() == DType::boolean ? DType::u8 : from.dtype();
  dispatch_numeric(type, "copy", [&]<class From>() {
    dispatch_all(to.dtype(), "copy", [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) {
        map_elements<To, From>("copy", Convert<To>(), to, from);
      } else if constexpr (sizeof(From) == 1) {
        map_elements<To, From>("copy", Same(), to, from);
      }
    });
  });
}

template <class Bits>
struct Constant {
  Bits bits;
  __device__ Bits operator()() const { return bits; }
};

// Whether all bytes of an element are alike.
template <class Bits>
bool is_one_byte(Bits bits) {
  return bits == static_cast<Bits>(static_cast<Bits>(~Bits{0}) / 255 * (bits & 255));
}

template <class Bits>
void fill_bits(Bits bits, Tensor& out) {
  const LoopPlan plan = LoopPlan::of({&out});
  if (is_one_byte(bits) && plan.dims == 1 && plan.inner_stride(0) == 1) {
    tenon::cuda::check(cudaMemsetAsync(out.raw_data(), static_cast<int>(bits & 255), out.nbytes(),
                                       tenon::cuda::stream_of(out)),
                       "fill", "cudaMemsetAsync");
    return;
  }
  map_elements<Bits>("fill", Constant<Bits>{bits}, out);
}

void fill_cuda(Tensor& out, double value) {
  if (out.numel() == 0) return;
  uint64_t bits = 0;
  dispatch_all(out.dtype(), "fill", [&]<class T>() {
    const T element = static_cast<T>(value);
    std::memcpy(&bits, &element, sizeof(T));  // little-endian: the low bytes of bits
  });
  with_bits(size_of(out.dtype()), [&]<class Bits>() { fill_bits(static_cast<Bits>(bits), out); });
}

[[maybe_unused]] const bool registered =
    copy.set(DeviceType::cuda, copy_cuda) && fill.set(DeviceType::cuda, fill_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
