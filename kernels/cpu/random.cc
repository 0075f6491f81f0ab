// Random kernels: element i of the output uses number i of the Philox key.
#include "tenon/kernels/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/map_elements.h"
#include "tenon/kernels/cpu/philox_rows.h"
#include "tenon/kernels/scalar_math.h"

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

// The largest T below `limit`.
template <class T>
T largest_below(double limit) {
  T value = static_cast<T>(static_cast<Compute<T>>(limit));
  if (static_cast<double>(static_cast<Compute<T>>(value)) < limit) return value;
  if constexpr (sizeof(T) == 2) {
    const bool negative = (value.bits & 0x8000u) != 0;
    const bool zero = (value.bits & 0x7fffu) == 0;
    value.bits = static_cast<uint16_t>(zero ? 0x8001u : negative ? value.bits + 1 : value.bits - 1);
    return value;
  } else {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  }
}

void uniform_cpu(Tensor& out, double low, double high, const PhiloxKey& key) {
  dispatch_floating(out.dtype(), "uniform", [&]<class T>() {
    using C = Compute<T>;
    T* const data = out.numel() == 0 ? nullptr : out.data<T>();
    const C start = static_cast<C>(low);
    const C width = static_cast<C>(high - low);
    // Rounding must not reach `high`, which is outside the range.
    const C limit = static_cast<C>(largest_below<T>(high));
    for_each_random_row(out.numel(), key, [=](int64_t begin, int64_t n, const uint32_t* bits) {
      for (int64_t i = 0; i < n; ++i) {
        const C value = start + width * static_cast<C>(uniform_from_bits(bits[i]));
        data[begin + i] = static_cast<T>(value < limit ? value : limit);
      }
    });
  });
}

void normal_cpu(Tensor& out, double mean, double stddev, const PhiloxKey& key) {
  dispatch_floating(out.dtype(), "normal", [&]<class T>() {
    using C = Compute<T>;
    T* const data = out.numel() == 0 ? nullptr : out.data<T>();
    const C center = static_cast<C>(mean);
    const C spread = static_cast<C>(stddev);
    for_each_random_row(out.numel(), key, [=](int64_t begin, int64_t n, const uint32_t* bits) {
      alignas(64) C values[kChunk];
      const int64_t pairs = (n + 1) / 2;
#pragma GCC ivdep
      for (int64_t i = 0; i < pairs; ++i) {
        // 1 - u lies in (0, 1], where log is finite.
        const C u = C(1) - static_cast<C>(uniform_from_bits(bits[2 * i]));
        const C angle = C(6.283185307179586) * static_cast<C>(uniform_from_bits(bits[2 * i + 1]));
        const C radius = math::sqrt(C(-2) * math::log(u));
        values[2 * i] = center + spread * (radius * math::cos(angle));
        values[2 * i + 1] = center + spread * (radius * math::sin(angle));
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
  // uniform_from_bits(bits) >= p in integers.
  const auto threshold = static_cast<uint32_t>(std::ceil(static_cast<float>(p) * 0x1p24f));
  dispatch_floating(x.dtype(), "dropout", [&]<class T>() {
    using C = Compute<T>;
    const T* const in = x.data<T>();
    T* const out = y.data<T>();
    uint8_t* const kept = mask.data<uint8_t>();
    const C factor = static_cast<C>(p < 1 ? 1 / (1 - p) : 0);
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
    const C factor = static_cast<C>(p < 1 ? 1 / (1 - p) : 0);
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
