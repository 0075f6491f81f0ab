// Bugs with memory: outside of it, before it is written, after it is freed, not the device's.
#include "tenon/core/check.h"
#include "tenon/kernels/cuda/simt.h"
#include "tenon/tests/simt/memory_marks.h"
#include "tenon/tests/simt/planted.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::planted {
namespace {

using testing::DeviceArray;

template <bool kBroken>
__global__ void scale(float* data, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (kBroken ? i <= count : i < count) data[i] *= 2.0f;
}

template <bool kBroken>
__global__ void difference(const float* in, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  out[i] = in[i] - (i > 0 || kBroken ? in[i - 1] : 0.0f);
}

template <bool kBroken>
__global__ void small_shared(const float* in, float* out) {
  SIMT_SHARED(float, tile, [kBroken ? 63 : 64]);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void reverse_dynamic(const float* in, float* out) {
  SIMT_DYNAMIC_SHARED(float, tile);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

template <bool kBroken>
__global__ void row_sum(const float* in, float* out, int rows, int columns) {
  const int row = static_cast<int>(threadIdx.x);
  if (row >= rows) return;
  const int stride = kBroken ? columns + 1 : columns;
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += in[row * stride + i];
  out[row] = sum;
}

// Four at a time; the last thread has fewer.
template <bool kBroken>
__global__ void add_vectors(const float* in, float* out, int count) {
  const int first = 4 * static_cast<int>(threadIdx.x);
  if (first >= count) return;
  if (kBroken || first + 4 <= count) {
    const float4 v = *reinterpret_cast<const float4*>(in + first);
    *reinterpret_cast<float4*>(out + first) =
        make_float4(v.x + 1.0f, v.y + 1.0f, v.z + 1.0f, v.w + 1.0f);
  } else {
    for (int i = first; i < count; ++i) out[i] = in[i] + 1.0f;
  }
}

// Every thread fills its place, the halo at the ends needs two more.
template <bool kBroken>
__global__ void blur(const float* in, float* out) {
  SIMT_SHARED(float, tile, [66]);
  const int i = static_cast<int>(threadIdx.x);
  tile[i + 1] = in[i];
  if (i == 0) tile[0] = 0.0f;
  if (i == 63 && !kBroken) tile[65] = 0.0f;
  __syncthreads();
  out[i] = tile[i] + tile[i + 1] + tile[i + 2];
}

// 64 threads are two warps.
template <bool kBroken>
__global__ void sum_of_warps(const float* in, float* out) {
  SIMT_SHARED(float, partial, [32]);
  const unsigned thread = threadIdx.x;
  float sum = in[thread];
  for (unsigned delta = 16; delta > 0; delta /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, delta);
  }
  if (thread % 32 == 0) partial[thread / 32] = sum;
  __syncthreads();
  if (thread != 0) return;
  float total = 0;
  for (unsigned i = 0; i < (kBroken ? 3 : blockDim.x / 32); ++i) total += partial[i];
  *out = total;
}

__global__ void accumulate(const float* in, float* out) { out[threadIdx.x] += in[threadIdx.x]; }

__global__ void copy(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

const std::vector<float>& numbers() {
  static const std::vector<float> values(64, 3.0f);
  return values;
}

void freed(bool broken) {
  const DeviceArray<float> out(64);
  float* in = nullptr;
  testing::require(cudaMalloc(reinterpret_cast<void**>(&in), 256), "cudaMalloc");
  testing::require(cudaMemsetAsync(in, 0, 256, nullptr), "cudaMemsetAsync");
  if (broken) testing::require(cudaFree(in), "cudaFree");
  launch("copy", copy, 1, 64, 0, nullptr, in, out.data());
  if (!broken) testing::require(cudaFree(in), "cudaFree");
}

// A block of a caching allocator: back with it, not with CUDA.
void freed_part(bool broken) {
  const DeviceArray<float> segment(1024), out(64);
  mark_freed(segment.data(), segment.bytes());
  float* part = segment.data() + 256;
  mark_allocated(part, 256);
  testing::require(cudaMemsetAsync(part, 0, 256, nullptr), "cudaMemsetAsync");
  if (broken) mark_freed(part, 256);
  launch("copy", copy, 1, 64, 0, nullptr, part, out.data());
  if (!broken) mark_freed(part, 256);
}

void host_pointer(bool broken) {
  const std::vector<float> host(numbers());
  const DeviceArray<float> device(host), out(64);
  launch("copy", copy, 1, 64, 0, nullptr, broken ? host.data() : device.data(), out.data());
}

void other_device(bool broken) {
  testing::require(cudaSetDevice(broken ? 3 : 0), "cudaSetDevice");
  {
    const DeviceArray<float> in(numbers());
    testing::require(cudaSetDevice(0), "cudaSetDevice");
    const DeviceArray<float> out(64);
    launch("copy", copy, 1, 64, 0, nullptr, in.data(), out.data());
  }
}

void host_reads_device(bool broken) {
  const DeviceArray<float> device(numbers());
  const float* from = broken ? device.data() : numbers().data();
  const volatile float first = from[0];
  static_cast<void>(first);
}

template <void (*kBad)(const float*, float*), void (*kGood)(const float*, float*)>
void in_to_out(bool broken) {
  const DeviceArray<float> in(numbers()), out(64);
  launch("in_to_out", broken ? kBad : kGood, 1, 64, 0, nullptr, in.data(), out.data());
}

}  // namespace

std::vector<Case> memory_cases() {
  return {
      {"one element too many", Kind::out_of_bounds, true,
       [](bool broken) {
         const DeviceArray<float> data(numbers());
         launch("scale", broken ? scale<true> : scale<false>, 2, 64, 0, nullptr, data.data(), 64);
       }},
      {"one element too early", Kind::out_of_bounds, true,
       [](bool broken) {
         const DeviceArray<float> in(numbers()), out(64);
         launch("difference", broken ? difference<true> : difference<false>, 1, 64, 0, nullptr,
                in.data(), out.data(), 64);
       }},
      {"a shared array that is too small", Kind::out_of_bounds, false,
       &in_to_out<small_shared<true>, small_shared<false>>},
      {"too little dynamic shared memory", Kind::out_of_bounds, false,
       [](bool broken) {
         const DeviceArray<float> in(numbers()), out(64);
         launch("reverse_dynamic", reverse_dynamic, 1, 64, broken ? 63 * 4 : 64 * 4, nullptr,
                in.data(), out.data());
       }},
      {"a wrong row stride", Kind::out_of_bounds, true,
       [](bool broken) {
         const DeviceArray<float> in(numbers()), out(8);
         launch("row_sum", broken ? row_sum<true> : row_sum<false>, 1, 32, 0, nullptr, in.data(),
                out.data(), 8, 8);
       }},
      {"vectors beyond the end", Kind::out_of_bounds, true,
       [](bool broken) {
         const DeviceArray<float> in(std::vector<float>(61, 1.0f)), out(61);
         launch("add_vectors", broken ? add_vectors<true> : add_vectors<false>, 1, 32, 0, nullptr,
                in.data(), out.data(), 61);
       }},
      {"a halo that nobody loads", Kind::uninitialised, true, &in_to_out<blur<true>, blur<false>>},
      {"a wrong number of warps", Kind::uninitialised, true,
       &in_to_out<sum_of_warps<true>, sum_of_warps<false>>},
      {"sums into memory that is not zero yet", Kind::uninitialised, true,
       [](bool broken) {
         const DeviceArray<float> in(numbers()), out(64);
         if (!broken) {
           testing::require(cudaMemsetAsync(out.data(), 0, 256, nullptr), "cudaMemsetAsync");
         }
         launch("accumulate", accumulate, 1, 64, 0, nullptr, in.data(), out.data());
       }},
      {"memory that was freed", Kind::use_after_free, true, &freed},
      {"a part that the allocator has back", Kind::use_after_free, true, &freed_part},
      {"a pointer of the host", Kind::host_memory, true, &host_pointer},
      {"memory of another device", Kind::host_memory, true, &other_device},
      {"the host reads device memory", Kind::host_access, true, &host_reads_device},
  };
}

}  // namespace simt::planted
