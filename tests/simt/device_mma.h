// The emulator's twins of kernels/cuda/mma.h, by the fragments' layouts in the PTX manual.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tenon/core/half.h"
#include "tenon/tests/simt/device.h"

namespace simt {
namespace warp {

// What lanes bring is on their stacks; `value` is its address.
struct MmaLane {
  const unsigned* a;
  unsigned b[2];
  float* c;
};
template <class T>
unsigned compute_mma(const WarpCall* lanes, unsigned present, uint64_t* results);

struct alignas(16) MatrixRow {
  unsigned pair[4];
};
struct MatrixLane {
  MatrixRow row;
  unsigned* registers;
};
unsigned compute_matrices(const WarpCall* lanes, unsigned present, uint64_t* results);
unsigned compute_transposed(const WarpCall* lanes, unsigned present, uint64_t* results);

// Every lane asks for the next one, so that one that is missing is named.
inline void exchange_all(const char* name, const void* brought,
                         unsigned (*compute)(const WarpCall*, unsigned, uint64_t*), Site site) {
  warp_exchange(
      {name, 0xffffffffu, reinterpret_cast<uintptr_t>(brought), (lane() + 1) % 32, compute, site});
}

inline void load(const char* name, const void* row, unsigned (&registers)[4],
                 unsigned (*compute)(const WarpCall*, unsigned, uint64_t*), Site site) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) trap(site);
  const MatrixLane brought{*static_cast<const MatrixRow*>(row), registers};
  exchange_all(name, &brought, compute, site);
}

}  // namespace warp

template <class T>
void multiply_16x8x16(const unsigned (&a)[4], unsigned b0, unsigned b1, float (&c)[4], SIMT_SITE) {
  const warp::MmaLane brought{a, {b0, b1}, c};
  warp::exchange_all("mma", &brought, &warp::compute_mma<T>, SIMT_HERE);
}

inline void load_matrices(const void* row, unsigned (&registers)[4], SIMT_SITE) {
  warp::load("ldmatrix", row, registers, &warp::compute_matrices, SIMT_HERE);
}
inline void load_transposed(const void* row, unsigned (&registers)[4], SIMT_SITE) {
  warp::load("ldmatrix.trans", row, registers, &warp::compute_transposed, SIMT_HERE);
}

template <class T>
unsigned pack_pair(float low, float high) {
  return T(low).bits | static_cast<unsigned>(T(high).bits) << 16;
}

inline float exp2_of(float x) { return ::exp2f(x); }

}  // namespace simt
