// Elements of device arrays: 16-byte groups of one type, and single elements of a dtype that is
// known only when the kernel runs (parameters of a layer and their gradients).
#pragma once

#include <cstdint>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cuda/simt.h"

namespace tenon::kernels::cuda {

// Elements of a 16-byte load; types of 8 bytes coalesce well without.
template <class T>
inline constexpr int kPacked = sizeof(T) >= 8 ? 1 : static_cast<int>(16 / sizeof(T));

template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Packed {
  T value[V];
};
template <int V, class T>
__device__ Packed<T, V> load_packed(const T* from) {
  return *reinterpret_cast<const Packed<T, V>*>(from);
}
template <class T, int V>
__device__ void store_packed(T* to, const Packed<T, V>& values) {
  *reinterpret_cast<Packed<T, V>*>(to) = values;
}
inline bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.raw_data()) % 16 == 0;
}

// body<V>() with V = 1, or the elements of 16 bytes where everything is `packed`.
template <class T, class Body>
void with_vector(bool packed, const Body& body) {
  if constexpr (kPacked < T >> 1) {
    if (packed) return body.template operator()<kPacked<T>>();
  }
  body.template operator()<1>();
}

// body<T>() for the type of the floating `dtype`; the branch is the same for all threads.
template <class Body>
__device__ void with_floating(DType dtype, const Body& body) {
  if (dtype == DType::f32) return body.template operator()<float>();
  if (dtype == DType::bf16) return body.template operator()<BFloat16>();
  if (dtype == DType::f16) return body.template operator()<Float16>();
  body.template operator()<double>();
}
// A list of elements of any floating dtype, for example gamma of a layer; without a tensor it has
// none.
struct AnyList {
  AnyList() = default;
  explicit AnyList(const Tensor* tensor) {
    if (tensor == nullptr) return;
    data = tensor->raw_data();
    stride = tensor->ndim() == 0 ? 1 : tensor->strides()[0];
    dtype = tensor->dtype();
    packed = stride == 1 && is_aligned(*tensor);
  }

  // The floating element number i; 0 where there are none.
  template <class C>
  __device__ C load(int64_t i, C otherwise = C(0)) const {
    C value[1];
    load<1>(i, value, otherwise);
    return value[0];
  }
  // V floating elements from i on, a multiple of V; `otherwise` where there are none.
  template <int V, class C>
  __device__ void load(int64_t i, C (&values)[V], C otherwise) const {
    for (int j = 0; j < V; ++j) values[j] = otherwise;
    if (data == nullptr) return;
    with_floating(dtype, [&]<class T>() {
      const T* const from = static_cast<const T*>(data) + i * stride;
      Packed<T, V> loaded;
      if (packed) {
        loaded = load_packed<V>(from);
      } else {
        for (int j = 0; j < V; ++j) loaded.value[j] = from[j * stride];
      }
      for (int j = 0; j < V; ++j) {
        values[j] = static_cast<C>(static_cast<Compute<T>>(loaded.value[j]));
      }
    });
  }

  // The element = value, or += where `accumulate`; nothing where there are none.
  __device__ void write_gradient(int64_t i, double value, bool accumulate) const {
    if (data == nullptr) return;
    with_floating(dtype, [&]<class T>() {
      T& element = static_cast<T*>(data)[i * stride];
      const double old = accumulate ? static_cast<double>(static_cast<Compute<T>>(element)) : 0;
      element = static_cast<T>(static_cast<Compute<T>>(old + value));
    });
  }

  void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::f32;
  bool packed = false;
};

}  // namespace tenon::kernels::cuda
