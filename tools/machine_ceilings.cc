#include "tenon/tools/machine_ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tenon/core/factory.h"
#include "tenon/core/parallel.h"
#include "tenon/core/runtime.h"
#include "tenon/kernels/matmul.h"
#include "tenon/kernels/random.h"
#include "tenon/tools/op_timer.h"

namespace tenon::tools {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Ten chains keep two units with a latency of four or five cycles busy, and fit 16 registers.
constexpr int kChains = 10;
constexpr int64_t kRounds = 100'000;
constexpr int64_t kMuchWork = int64_t{1} << 40;  // for parallel_for: always worth a fork

volatile double sink;  // keeps results, and so the loops, alive

template <class T>
struct Vector {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
};

template <class T, size_t... I>
void multiply_add(std::index_sequence<I...>) {
  using Lanes = typename Vector<T>::Type;
  const Lanes factor = Lanes{} + T(0.999), shift = Lanes{} + T(0.001);
  Lanes chain[sizeof...(I)] = {(Lanes{} + T(I))...};
  for (int64_t round = 0; round < kRounds; ++round) {
    ((chain[I] = chain[I] * factor + shift), ...);
  }
  sink = static_cast<double>((chain[I][0] + ...));
}

template <class T>
double gflop_rate(int threads, double seconds) {
  const double us = best_us(
      [&] {
        parallel_for(threads, kMuchWork, [](int64_t begin, int64_t end) {
          for (; begin < end; ++begin) multiply_add<T>(std::make_index_sequence<kChains>());
        });
      },
      seconds);
  constexpr int kLanes = kVectorBytes / sizeof(T);
  return 2.0 * kLanes * kChains * kRounds * threads / us / 1e3;
}

// Four times the outermost cache, as STREAM wants, within bounds.
int64_t stream_elements() {
  const int64_t cache = std::max<int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
  const int64_t bytes = std::clamp<int64_t>(4 * cache, 64 << 20, 256 << 20);
  return bytes / static_cast<int64_t>(sizeof(float));
}

double copy_rate(const Tensor& to, const Tensor& from, double seconds) {
  float* target = to.data<float>();
  const float* source = from.data<float>();
  const auto copy = [&] {
    parallel_for(to.numel(), kMuchWork, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, sizeof(float) * (end - begin));
    });
  };
  return 2.0 * to.nbytes() / best_us(copy, seconds) / 1e3;
}

double triad_rate(const Tensor& to, const Tensor& a, const Tensor& b, double seconds) {
  float* target = to.data<float>();
  const float *left = a.data<float>(), *right = b.data<float>();
  const auto triad = [&] {
    parallel_for(to.numel(), kMuchWork, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) target[i] = left[i] + 3.0f * right[i];
    });
  };
  return 3.0 * to.nbytes() / best_us(triad, seconds) / 1e3;
}

double device_gflop(DType dtype, int64_t size, double seconds) {
  const DeviceType device = default_device().type;
  const auto side = static_cast<int64_t>(4 * std::sqrt(static_cast<double>(size)));
  const Tensor a = zeros({side, side}, {.dtype = dtype}), b = zeros({side, side}, {.dtype = dtype});
  Tensor c = zeros({side, side}, {.dtype = dtype});
  for (Tensor operand : {a, b}) kernels::uniform(device, operand, -1, 1, {});
  const auto multiply = [&] { kernels::matmul(device, a, b, c, {}); };
  const auto flops = 2.0 * static_cast<double>(side) * static_cast<double>(side * side);
  return flops / best_us(multiply, seconds) / 1e3;
}

// A device: what its own copy moves, and what its library multiplies at a size that fills it.
MachineCeilings device_ceilings(DType dtype, int64_t size, double seconds) {
  const Device device = default_device();
  MachineCeilings result;
  result.dtype = dtype;
  const Tensor to = zeros({16 * size}), from = zeros({16 * size});
  const auto copy = [&] {
    runtime(device.type)
        .copy_async(to.raw_data(), from.raw_data(), to.nbytes(), current_stream(device));
  };
  result.copy_gb = 2.0 * static_cast<double>(to.nbytes()) / best_us(copy, seconds) / 1e3;
  result.triad_gb = result.copy_gb;
  result.gflop = device_gflop(dtype, size, seconds);
  result.gflop_one = result.gflop;
  return result;
}

double host_gflop(DType dtype, int threads, double seconds) {
  return compute_dtype(dtype) == DType::f64 ? gflop_rate<double>(threads, seconds)
                                            : gflop_rate<float>(threads, seconds);
}

}  // namespace

double measure_gflop(DType dtype, int64_t size, double seconds) {
  return default_device() == kCpu ? host_gflop(dtype, num_threads(), seconds)
                                  : device_gflop(dtype, size, seconds);
}

MachineCeilings measure_ceilings(DType dtype, int64_t size, double seconds) {
  if (default_device() != kCpu) return device_ceilings(dtype, size, seconds);
  MachineCeilings result;
  result.dtype = compute_dtype(dtype);
  result.gflop_one = host_gflop(dtype, 1, seconds);
  result.gflop = num_threads() == 1 ? result.gflop_one : host_gflop(dtype, num_threads(), seconds);
  const Shape shape{stream_elements()};
  const Tensor to = zeros(shape), a = zeros(shape), b = zeros(shape);
  result.copy_gb = copy_rate(to, a, seconds);
  result.triad_gb = triad_rate(to, a, b, seconds);
  return result;
}

}  // namespace tenon::tools
