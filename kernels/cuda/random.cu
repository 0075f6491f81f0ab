// Random kernels on the GPU: element i of the output uses number i of the Philox key, so a thread
// takes the four elements of a block of numbers.
#include "tenon/kernels/random.h"

#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/random_math.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kNumbers = 4;  // of a Philox block

__device__ Packed<uint32_t, kNumbers> numbers(const PhiloxKey& key, int64_t block) {
  const auto drawn = philox(key.seed, key.stream, key.offset + static_cast<uint64_t>(block));
  return {{drawn[0], drawn[1], drawn[2], drawn[3]}};
}

// The elements of block `block` of `data`, as far as there are any.
template <class T>
__device__ void store_block(T* data, int64_t block, int64_t count, bool packed,
                            const Packed<T, kNumbers>& values) {
  const int64_t first = block * kNumbers;
  if (packed && first + kNumbers <= count) return store_packed(data + first, values);
#pragma unroll
  for (int j = 0; j < kNumbers; ++j) {
    if (first + j < count) data[first + j] = values.value[j];
  }
}

template <class T>
struct Uniform {
  UniformNumber<T> number;
  __device__ Packed<T, kNumbers> operator()(const Packed<uint32_t, kNumbers>& bits) const {
    Packed<T, kNumbers> result;
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) result.value[j] = number(bits.value[j]);
    return result;
  }
};

template <class T>
struct Normal {
  using C = Compute<T>;
  NormalPair<C> pair;
  __device__ Packed<T, kNumbers> operator()(const Packed<uint32_t, kNumbers>& bits) const {
    Packed<T, kNumbers> result;
#pragma unroll
    for (int j = 0; j < kNumbers; j += 2) {
      C first, second;
      pair(bits.value[j], bits.value[j + 1], first, second);
      result.value[j] = static_cast<T>(first);
      result.value[j + 1] = static_cast<T>(second);
    }
    return result;
  }
};

template <class T, class Draw>
__global__ void __launch_bounds__(kMapBlock)
    draw_kernel(Draw draw, PhiloxKey key, int64_t count, bool packed, T* out) {
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t block = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; block * kNumbers < count;
       block += step) {
    store_block(out, block, count, packed, draw(numbers(key, block)));
  }
}

template <class T, class Draw>
void draw(const char* op, const Draw& draw, Tensor& out, const PhiloxKey& key) {
  simt::launch(op, draw_kernel<T, Draw>, grid_for(out.device(), out.numel(), kMapBlock * kNumbers),
               kMapBlock, 0, tenon::cuda::stream_of(out), draw, key, out.numel(), is_aligned(out),
               out.data<T>());
}

void uniform_cuda(Tensor& out, double low, double high, const PhiloxKey& key) {
  if (out.numel() == 0) return;
  dispatch_floating(out.dtype(), "uniform", [&]<class T>() {
    draw<T>("uniform", Uniform<T>{UniformNumber<T>(low, high)}, out, key);
  });
}

void normal_cuda(Tensor& out, double mean, double stddev, const PhiloxKey& key) {
  if (out.numel() == 0) return;
  dispatch_floating(out.dtype(), "normal", [&]<class T>() {
    draw<T>("normal", Normal<T>{NormalPair<Compute<T>>(mean, stddev)}, out, key);
  });
}

template <class T>
struct DropoutCall {
  const T* x;
  T* y;
  uint8_t* mask;
  int64_t count;
  bool packed;
  uint32_t threshold;
  Compute<T> factor;
};

template <class T>
__global__ void __launch_bounds__(kMapBlock) dropout_kernel(DropoutCall<T> call, PhiloxKey key) {
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t block = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; block * kNumbers < call.count;
       block += step) {
    const int64_t first = block * kNumbers;
    Packed<T, kNumbers> values;
    if (call.packed && first + kNumbers <= call.count) {
      values = load_packed<kNumbers>(call.x + first);
    } else {
#pragma unroll
      for (int j = 0; j < kNumbers; ++j) {
        if (first + j < call.count) values.value[j] = call.x[first + j];
      }
    }
    const auto bits = numbers(key, block);
    Packed<uint8_t, kNumbers> keep;
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) {
      const bool kept = bits.value[j] >> 8 >= call.threshold;
      const auto scaled = to_compute(values.value[j]) * call.factor;
      keep.value[j] = kept ? 1 : 0;
      values.value[j] = static_cast<T>(kept ? scaled : Compute<T>(0));
    }
    store_block(call.y, block, call.count, call.packed, values);
    store_block(call.mask, block, call.count, call.packed, keep);
  }
}

void dropout_cuda(const Tensor& x, Tensor& y, Tensor& mask, double p, const PhiloxKey& key) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), "dropout", [&]<class T>() {
    const DropoutCall<T> call{x.data<T>(),
                              y.data<T>(),
                              mask.data<uint8_t>(),
                              x.numel(),
                              is_aligned(x) && is_aligned(y) && is_aligned(mask),
                              dropout_threshold(p),
                              static_cast<Compute<T>>(dropout_factor(p))};
    simt::launch("dropout", dropout_kernel<T>,
                 grid_for(x.device(), call.count, kMapBlock * kNumbers), kMapBlock, 0,
                 tenon::cuda::stream_of(x), call, key);
  });
}

template <class C>
struct Masked {
  C factor;
  __device__ C operator()(uint8_t kept, C dy) const { return kept != 0 ? dy * factor : C(0); }
};

void dropout_backward_cuda(const Tensor& dy, const Tensor& mask, Tensor& dx, double p) {
  check_same_dtype("dropout_backward", dy, dx);
  dispatch_floating(dx.dtype(), "dropout_backward", [&]<class T>() {
    using C = Compute<T>;
    map_elements<T, uint8_t, T>("dropout_backward", Masked<C>{static_cast<C>(dropout_factor(p))},
                                dx, mask, dy);
  });
}

[[maybe_unused]] const bool registered =
    uniform.set(DeviceType::cuda, uniform_cuda) && normal.set(DeviceType::cuda, normal_cuda) &&
    dropout.set(DeviceType::cuda, dropout_cuda) &&
    dropout_backward.set(DeviceType::cuda, dropout_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
