// Atomics. They are atomic also between kernels that run on different OS threads. The functions are
// out of line, so that the access checker hears of them from the emulator. A part of device.h.
#pragma once

#include "tenon/tests/simt/kernel.h"

namespace simt::atomic {

// The old value, as all of these.
template <class T>
T add(T* address, T value, Site site);
template <class T>
T exchange(T* address, T value, Site site);
template <class T>
T compare_exchange(T* address, T compare, T value, Site site);
template <class T>
T least(T* address, T value, Site site);
template <class T>
T greatest(T* address, T value, Site site);
template <class T>
T bit_and(T* address, T value, Site site);
template <class T>
T bit_or(T* address, T value, Site site);
template <class T>
T bit_xor(T* address, T value, Site site);

}  // namespace simt::atomic

#define SIMT_ATOMIC(name, type, function)                             \
  inline type name(type* address, type value, SIMT_SITE) {            \
    return ::simt::atomic::function<type>(address, value, SIMT_HERE); \
  }
#define SIMT_ATOMIC_INTEGERS(name, function) \
  SIMT_ATOMIC(name, int, function)           \
  SIMT_ATOMIC(name, unsigned, function)      \
  SIMT_ATOMIC(name, unsigned long long, function)

SIMT_ATOMIC_INTEGERS(atomicAdd, add)
SIMT_ATOMIC(atomicAdd, float, add)
SIMT_ATOMIC(atomicAdd, double, add)
SIMT_ATOMIC_INTEGERS(atomicExch, exchange)
SIMT_ATOMIC(atomicExch, float, exchange)
SIMT_ATOMIC_INTEGERS(atomicMin, least)
SIMT_ATOMIC(atomicMin, long long, least)
SIMT_ATOMIC_INTEGERS(atomicMax, greatest)
SIMT_ATOMIC(atomicMax, long long, greatest)
SIMT_ATOMIC_INTEGERS(atomicAnd, bit_and)
SIMT_ATOMIC_INTEGERS(atomicOr, bit_or)
SIMT_ATOMIC_INTEGERS(atomicXor, bit_xor)
#undef SIMT_ATOMIC_INTEGERS
#undef SIMT_ATOMIC

inline int atomicSub(int* address, int value, SIMT_SITE) {
  return ::simt::atomic::add<unsigned>(reinterpret_cast<unsigned*>(address),
                                       0u - static_cast<unsigned>(value), SIMT_HERE);
}
inline unsigned atomicSub(unsigned* address, unsigned value, SIMT_SITE) {
  return ::simt::atomic::add<unsigned>(address, 0u - value, SIMT_HERE);
}

#define SIMT_ATOMIC_CAS(type)                                                          \
  inline type atomicCAS(type* address, type compare, type value, SIMT_SITE) {          \
    return ::simt::atomic::compare_exchange<type>(address, compare, value, SIMT_HERE); \
  }
SIMT_ATOMIC_CAS(int)
SIMT_ATOMIC_CAS(unsigned)
SIMT_ATOMIC_CAS(unsigned long long)
SIMT_ATOMIC_CAS(unsigned short)
#undef SIMT_ATOMIC_CAS
