#include "tenon/tests/simt/device.h"

namespace simt::atomic {
namespace {

template <class T, class Operation>
T update(T* address, Site site, Operation operation) {
  before_atomic(address, sizeof(T), site);
  T old;
  __atomic_load(address, &old, __ATOMIC_SEQ_CST);
  for (;;) {
    T desired = operation(old);
    if (__atomic_compare_exchange(address, &old, &desired, false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST)) {
      return old;
    }
  }
}

}  // namespace

template <class T>
T add(T* address, T value, Site site) {
  return update(address, site, [value](T old) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps around
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
    } else {
      return old + value;
    }
  });
}
template <class T>
T exchange(T* address, T value, Site site) {
  return update(address, site, [value](T) { return value; });
}
template <class T>
T compare_exchange(T* address, T compare, T value, Site site) {
  return update(address, site, [=](T old) { return old == compare ? value : old; });
}
template <class T>
T least(T* address, T value, Site site) {
  return update(address, site, [value](T old) { return value < old ? value : old; });
}
template <class T>
T greatest(T* address, T value, Site site) {
  return update(address, site, [value](T old) { return old < value ? value : old; });
}
template <class T>
T bit_and(T* address, T value, Site site) {
  return update(address, site, [value](T old) { return old & value; });
}
template <class T>
T bit_or(T* address, T value, Site site) {
  return update(address, site, [value](T old) { return old | value; });
}
template <class T>
T bit_xor(T* address, T value, Site site) {
  return update(address, site, [value](T old) { return old ^ value; });
}

#define SIMT_INTEGER(T)                           \
  template T add<T>(T*, T, Site);                 \
  template T exchange<T>(T*, T, Site);            \
  template T compare_exchange<T>(T*, T, T, Site); \
  template T least<T>(T*, T, Site);               \
  template T greatest<T>(T*, T, Site);            \
  template T bit_and<T>(T*, T, Site);             \
  template T bit_or<T>(T*, T, Site);              \
  template T bit_xor<T>(T*, T, Site);
SIMT_INTEGER(int)
SIMT_INTEGER(unsigned)
SIMT_INTEGER(long long)
SIMT_INTEGER(unsigned long long)
#undef SIMT_INTEGER
template unsigned short compare_exchange<unsigned short>(unsigned short*, unsigned short,
                                                         unsigned short, Site);
template float add<float>(float*, float, Site);
template float exchange<float>(float*, float, Site);
template double add<double>(double*, double, Site);

}  // namespace simt::atomic
