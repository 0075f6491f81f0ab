// Warp functions: shuffles, votes, matches and reductions. A part of device.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tenon/tests/simt/kernel.h"

namespace simt::warp {

template <class T>
uint64_t to_bits(const T& value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

// `argument` is the lane whose value is taken.
unsigned compute_shuffle(const WarpCall* lanes, unsigned present, uint64_t* results);
unsigned compute_nothing(const WarpCall* lanes, unsigned present, uint64_t* results);
// The lanes whose value is not 0.
unsigned compute_ballot(const WarpCall* lanes, unsigned present, uint64_t* results);
// The lanes with the same value.
unsigned compute_match(const WarpCall* lanes, unsigned present, uint64_t* results);

// The emulator's work, not the kernel's: no access of it is checked.
template <class T, class Operation>
[[gnu::no_sanitize_thread]] unsigned compute_reduction(const WarpCall* lanes, unsigned present,
                                                       uint64_t* results) {
  T sum{};
  bool first = true;
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) == 0) continue;
    const T value = from_bits<T>(lanes[i].value);
    sum = first ? value : Operation{}(sum, value);
    first = false;
  }
  for (unsigned i = 0; i < 32; ++i) {
    if ((present >> i & 1u) != 0) results[i] = to_bits(sum);
  }
  return 0;
}

template <class T>
T shuffle(const char* name, unsigned mask, T value, unsigned source, Site site) {
  return from_bits<T>(warp_exchange({name, mask, to_bits(value), source, &compute_shuffle, site}));
}
inline unsigned ballot(const char* name, unsigned mask, int predicate, Site site) {
  return static_cast<unsigned>(
      warp_exchange({name, mask, predicate != 0 ? 1u : 0u, 0, &compute_ballot, site}));
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Greatest {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct BitAnd {
  unsigned operator()(unsigned a, unsigned b) const { return a & b; }
};
struct BitOr {
  unsigned operator()(unsigned a, unsigned b) const { return a | b; }
};
struct BitXor {
  unsigned operator()(unsigned a, unsigned b) const { return a ^ b; }
};

template <class Operation, class T>
T reduction(const char* name, unsigned mask, T value, Site site) {
  return from_bits<T>(
      warp_exchange({name, mask, to_bits(value), 0, &compute_reduction<T, Operation>, site}));
}

}  // namespace simt::warp

inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE) {
  ::simt::warp_exchange({"__syncwarp", mask, 0, 0, &::simt::warp::compute_nothing, SIMT_HERE});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_SITE) {
  const unsigned inside = static_cast<unsigned>(width) - 1u;
  const unsigned lane = (::simt::lane() & ~inside) | (static_cast<unsigned>(source) & inside);
  return ::simt::warp::shuffle("__shfl_sync", mask, value, lane, SIMT_HERE);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const unsigned self = ::simt::lane(), inside = static_cast<unsigned>(width) - 1u;
  const unsigned lane = delta > (self & inside) ? self : self - delta;
  return ::simt::warp::shuffle("__shfl_up_sync", mask, value, lane, SIMT_HERE);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const unsigned self = ::simt::lane(), inside = static_cast<unsigned>(width) - 1u;
  const unsigned lane = delta > inside - (self & inside) ? self : self + delta;
  return ::simt::warp::shuffle("__shfl_down_sync", mask, value, lane, SIMT_HERE);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE) {
  const unsigned self = ::simt::lane(), inside = static_cast<unsigned>(width) - 1u;
  const unsigned other = self ^ static_cast<unsigned>(lane_mask);
  const unsigned lane = other > (self | inside) ? self : other;
  return ::simt::warp::shuffle("__shfl_xor_sync", mask, value, lane, SIMT_HERE);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE) {
  return ::simt::warp::ballot("__ballot_sync", mask, predicate, SIMT_HERE);
}
inline int __any_sync(unsigned mask, int predicate, SIMT_SITE) {
  return ::simt::warp::ballot("__any_sync", mask, predicate, SIMT_HERE) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMT_SITE) {
  return ::simt::warp::ballot("__all_sync", mask, predicate == 0 ? 1 : 0, SIMT_HERE) == 0 ? 1 : 0;
}
// Which lanes run together is the hardware's choice; alone is one that it may make.
inline unsigned __activemask() { return 1u << ::simt::lane(); }
template <class T>
unsigned __match_any_sync(unsigned mask, T value, SIMT_SITE) {
  return static_cast<unsigned>(
      ::simt::warp_exchange({"__match_any_sync", mask, ::simt::warp::to_bits(value), 0,
                             &::simt::warp::compute_match, SIMT_HERE}));
}

#define SIMT_REDUCTION(name, type, operation)                                               \
  inline type name(unsigned mask, type value, SIMT_SITE) {                                  \
    return ::simt::warp::reduction<::simt::warp::operation>(#name, mask, value, SIMT_HERE); \
  }
SIMT_REDUCTION(__reduce_add_sync, int, Sum)
SIMT_REDUCTION(__reduce_add_sync, unsigned, Sum)
SIMT_REDUCTION(__reduce_min_sync, int, Least)
SIMT_REDUCTION(__reduce_min_sync, unsigned, Least)
SIMT_REDUCTION(__reduce_max_sync, int, Greatest)
SIMT_REDUCTION(__reduce_max_sync, unsigned, Greatest)
SIMT_REDUCTION(__reduce_and_sync, unsigned, BitAnd)
SIMT_REDUCTION(__reduce_or_sync, unsigned, BitOr)
SIMT_REDUCTION(__reduce_xor_sync, unsigned, BitXor)
#undef SIMT_REDUCTION
