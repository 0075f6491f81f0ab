// Tensor cores and asynchronous copies in the emulator: a product through their fragments, and
// what is reported.
#include <catch2/catch.hpp>
#include <vector>

#include "tenon/kernels/cuda/async_copy.h"
#include "tenon/kernels/cuda/mma.h"
#include "tenon/tests/simt/test_support.h"

namespace simt::testing {
namespace {

// c (16, 8) = a (16, 16) b, b given by rows (16, 16, of which 8 columns) and by columns (16, 16, of
// which 8 rows): half of the sum from each.
template <class T>
__global__ void product(const T* a, const T* by_rows, const T* by_columns, float* c) {
  SIMT_DYNAMIC_SHARED(T, tiles);
  const int lane = static_cast<int>(threadIdx.x);
  int tile = 0;
  for (const T* matrix : {a, by_rows, by_columns}) {
    for (int i = lane * 8; i < 256; i += 256) copy_async(tiles + tile * 256 + i, matrix + i, true);
    commit_copies();
    ++tile;
  }
  wait_copies<0>();
  __syncthreads();
  unsigned left[4], right[4];
  float sums[4] = {};
  load_matrices(tiles + lane % 16 * 16 + lane / 16 * 8, left);
  load_transposed(tiles + 256 + lane % 16 * 16 + lane / 16 * 8, right);
  multiply_16x8x16<T>(left, right[0], right[1], sums);
  load_matrices(tiles + 512 + (lane % 8 + lane / 16 * 8) * 16 + lane / 8 % 2 * 8, right);
  multiply_16x8x16<T>(left, right[0], right[1], sums);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i] / 2;
}

template <class T>
void check_product() {
  std::vector<T> a(256), by_rows(256), by_columns(256);
  for (size_t i = 0; i < 256; ++i) {
    a[i] = T(static_cast<float>(i * 37 % 64) - 32);
    by_rows[i] = T(static_cast<float>(i * 29 % 32) - 16);
    by_columns[i % 16 * 16 + i / 16] = by_rows[i];
  }
  const DeviceArray<T> device_a(a), rows(by_rows), columns(by_columns);
  DeviceArray<float> c(128);
  launch("product", product<T>, 1, 32, 3 * 256 * sizeof(T), nullptr, device_a.data(), rows.data(),
         columns.data(), c.data());
  const std::vector<float> result = c.values();
  for (size_t i = 0; i < 128; ++i) {
    float wanted = 0;
    for (size_t k = 0; k < 16; ++k) wanted += a[i / 8 * 16 + k] * by_rows[k * 16 + i % 8];
    REQUIRE(result[i] == wanted);
  }
}

__global__ void copy_one(const float* from, float* to, bool waits, bool all_lanes) {
  SIMT_DYNAMIC_SHARED(float, tile);
  if (threadIdx.x == 3 && !all_lanes) return;
  copy_async(tile + 4 * threadIdx.x, from + 4 * threadIdx.x, threadIdx.x != 1);
  commit_copies();
  if (waits) wait_copies<0>();
  for (unsigned i = 0; i < 4; ++i) to[4 * threadIdx.x + i] = tile[4 * threadIdx.x + i];
  if (!waits) wait_copies<0>();
  unsigned registers[4];
  load_matrices(tile + 4 * threadIdx.x, registers);
}

__global__ void never_wait(const float* from) {
  SIMT_DYNAMIC_SHARED(float, tile);
  copy_async(tile + 4 * threadIdx.x, from + 4 * threadIdx.x, true);
  commit_copies();
}

TEST_CASE("simt: a product on tensor cores, in every schedule") {
  const WithSettings restore;
  for (settings().seed = 0; settings().seed < 4; ++settings().seed) {
    check_product<tenon::BFloat16>();
    check_product<tenon::Float16>();
  }
}

TEST_CASE("simt: what is copied asynchronously is there after waiting, and not before") {
  const DeviceArray<float> from(std::vector<float>(128, 5));
  DeviceArray<float> to(128);
  launch("copy_one", copy_one, 1, 32, 512, nullptr, from.data(), to.data(), true, true);
  std::vector<float> wanted(128, 5);
  for (size_t i = 4; i < 8; ++i) wanted[i] = 0;
  CHECK(to.values() == wanted);
  launch("copy_one", copy_one, 1, 32, 512, nullptr, from.data(), to.data(), false, true);
  for (const float value : to.values()) CHECK(value != value);
}

TEST_CASE("simt: missing lanes and copies that nobody waits for are reported") {
  const DeviceArray<float> from(std::vector<float>(128, 5));
  DeviceArray<float> to(128);
  {
    const Capture capture;
    launch("copy_one", copy_one, 1, 32, 512, nullptr, from.data(), to.data(), true, false);
    CHECK(capture.has(Kind::shuffle_source));
  }
  {
    const Capture capture;
    launch("never_wait", never_wait, 1, 32, 512, nullptr, from.data());
    CHECK(capture.has(Kind::bad_call));
  }
  const Capture capture;
  launch("copy_one", copy_one, 1, 32, 512, nullptr, from.data(), to.data(), true, true);
  CHECK(capture.text().empty());
}

}  // namespace
}  // namespace simt::testing
