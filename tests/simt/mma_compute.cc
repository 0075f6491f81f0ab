// The results of device_mma.h's functions, from the fragments of all lanes.
#include "tenon/tests/simt/device_mma.h"

namespace simt::warp {
namespace {

constexpr unsigned kAll = 0xffffffffu;

// Lanes whose next one is missing.
unsigned in_vain(unsigned present) { return present & ~(present >> 1 | present << 31); }

template <class Lane>
const Lane& brought(const WarpCall& call) {
  return *reinterpret_cast<const Lane*>(static_cast<uintptr_t>(call.value));
}

// Number `which` of a pair.
template <class T>
float half_of(unsigned pair, unsigned which) {
  T value;
  value.bits = static_cast<uint16_t>(pair >> (16 * which));
  return value;
}

}  // namespace

template <class T>
unsigned compute_mma(const WarpCall* lanes, unsigned present, uint64_t*) {
  if (present != kAll) return in_vain(present);
  float a[16][16], b[8][16];  // b by columns
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& own = brought<MmaLane>(lanes[lane]);
    const unsigned group = lane / 4, column = lane % 4 * 2;
    for (unsigned i = 0; i < 8; ++i) {
      a[group + i / 2 % 2 * 8][column + i / 4 * 8 + i % 2] = half_of<T>(own.a[i / 2], i % 2);
    }
    for (unsigned i = 0; i < 4; ++i) {
      b[group][column + i / 2 * 8 + i % 2] = half_of<T>(own.b[i / 2], i % 2);
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    float* const c = brought<MmaLane>(lanes[lane]).c;
    for (unsigned i = 0; i < 4; ++i) {
      const float* const row = a[lane / 4 + i / 2 * 8];
      const float* const column = b[lane % 4 * 2 + i % 2];
      float sum = 0;
      for (unsigned k = 0; k < 16; ++k) sum += row[k] * column[k];
      c[i] += sum;
    }
  }
  return 0;
}
template unsigned compute_mma<tenon::BFloat16>(const WarpCall*, unsigned, uint64_t*);
template unsigned compute_mma<tenon::Float16>(const WarpCall*, unsigned, uint64_t*);

unsigned compute_matrices(const WarpCall* lanes, unsigned present, uint64_t*) {
  if (present != kAll) return in_vain(present);
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned* const registers = brought<MatrixLane>(lanes[lane]).registers;
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const MatrixRow& row = brought<MatrixLane>(lanes[8 * matrix + lane / 4]).row;
      registers[matrix] = row.pair[lane % 4];
    }
  }
  return 0;
}

unsigned compute_transposed(const WarpCall* lanes, unsigned present, uint64_t*) {
  if (present != kAll) return in_vain(present);
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned* const registers = brought<MatrixLane>(lanes[lane]).registers;
    const unsigned column = lane / 4;
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      unsigned pair = 0;
      for (unsigned i = 0; i < 2; ++i) {
        const auto& row = brought<MatrixLane>(lanes[8 * matrix + lane % 4 * 2 + i]).row;
        pair |= (row.pair[column / 2] >> (16 * (column % 2)) & 0xffffu) << (16 * i);
      }
      registers[matrix] = pair;
    }
  }
  return 0;
}

}  // namespace simt::warp
