// Random kernels: element i of the output uses number i of the Philox key.
#include "tenon/kernels/random.h"

#include <algorithm>
#include <bit>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/cpu/philox_rows.h"
#include "tenon/kernels/random_math.h"

namespace tenon::kernels {
namespace {

using cpu::kChunk;

// row(begin, n, bits) over chunks of the element range [0, count).
template <class Row>
void for_each_random_row(int64_t count, const PhiloxKey& key, const Row& row) {
  // Ten rounds of Philox cost as much as moving some 16 bytes a number.
  parallel_for(
      count, count * 16,
      [&](int64_t begin, int64_t end) {
        alignas(64) uint32_t bits[kChunk];
        for (; begin < end; begin += kChunk) {
          const int64_t n = std::min(kChunk, end - begin);
          cpu::philox_row(key, begin, n, bits);
          row(begin, n, bits);
        }
      },
      cpu::kThreadAlign);
}

void uniform_cpu(Tensor& out, double low, double high, const PhiloxKey& key) {
  dispatch_floating(out.dtype(), "uniform", [&]<class T>() {
    T* const data = out.numel() == 0 ? nullptr : out.data<T>();
    const UniformNumber<T> number(low, high);
    for_each_random_row(out.numel(), key, [=](int64_t begin, int64_t n, const uint32_t* bits) {
      for (int64_t i = 0; i < n; ++i) data[begin + i] = number(bits[i]);
    });
  });
}

void normal_cpu(Tensor& out, double mean, double stddev, const PhiloxKey& key) {
  dispatch_floating(out.dtype(), "normal", [&]<class T>() {
    using C = Compute<T>;
    T* const data = out.numel() == 0 ? nullptr : out.data<T>();
    const NormalPair<C> pair(mean, stddev);
    for_each_random_row(out.numel(), key, [=](int64_t begin, int64_t n, const uint32_t* bits) {
      alignas(64) C values[kChunk];
      const int64_t pairs = (n + 1) / 2;
#pragma GCC ivdep
      for (int64_t i = 0; i < pairs; ++i) {
        pair(bits[2 * i], bits[2 * i + 1], values[2 * i], values[2 * i + 1]);
      }
      for (int64_t i = 0; i < n; ++i) data[begin + i] = static_cast<T>(values[i]);
    });
  });
}

// value where keep is 1, +0 where it is 0; as a bit mask, because that vectorises over bytes of
// keep.
template <class C>
C masked(C value, uint8_t keep) {
  using Bits = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
  return std::bit_cast<C>(std::bit_cast<Bits>(value) & (Bits{0} - Bits{keep}));
}

void dropout_cpu(const Tensor& x, Tensor& y, Tensor& mask, double p, const PhiloxKey& key) {
  if (x.numel() == 0) return;
  const uint32_t threshold = dropout_threshold(p);
  dispatch_floating(x.dtype(), "dropout", [&]<class T>() {
    using C = Compute<T>;
    const T* const in = x.data<T>();
    T* const out = y.data<T>();
    uint8_t* const kept = mask.data<uint8_t>();
    const C factor = static_cast<C>(dropout_factor(p));
    for_each_random_row(x.numel(), key, [=](int64_t begin, int64_t n, const uint32_t* bits) {
      uint8_t* const keep = kept + begin;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) keep[i] = (bits[i] >> 8) >= threshold ? 1 : 0;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        out[begin + i] = static_cast<T>(masked(static_cast<C>(in[begin + i]) * factor, keep[i]));
      }
    });
  });
}

void dropout_backward_cpu(const Tensor& dy, const Tensor& mask, Tensor& dx, double p) {
  dispatch_types<float, double>(compute_dtype(dx.dtype()), "dropout_backward", [&]<class C>() {
    const C factor = static_cast<C>(dropout_factor(p));
    cpu::map_elements<C, uint8_t, C>(
        [factor](int64_t n, C* out, const uint8_t* kept, const C* grad) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) out[i] = masked(grad[i] * factor, kept[i]);
        },
        dx, mask, dy);
  });
}

[[maybe_unused]] const bool registered =
    uniform.set(DeviceType::cpu, uniform_cpu) && normal.set(DeviceType::cpu, normal_cpu) &&
    dropout.set(DeviceType::cpu, dropout_cpu) &&
    dropout_backward.set(DeviceType::cpu, dropout_backward_cpu);

}  // namespace
}  // namespace tenon::kernels
