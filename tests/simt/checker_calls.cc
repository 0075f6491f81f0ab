// The functions that -fsanitize=thread makes the compiler call. Outside of kernels they return at
// once, unless pinned memory is touched. Atomics of host code do what they say and tell nobody.
#include "tenon/tests/simt/checker.h"

namespace {

using simt::checker::Kernel;
using simt::checker::running_kernel;

inline void touch(const void* address, size_t bytes, bool write, const void* code) {
  if (Kernel* kernel = running_kernel) {
    simt::checker::touch_in_kernel(*kernel, {address, bytes, write, false, code});
  } else if (simt::checker::concerns_host(address)) {
    simt::checker::touch_in_host_code({address, bytes, write, false, code});
  }
}

}  // namespace

#define SIMT_CALL extern "C" __attribute__((visibility("default")))
#define SIMT_TOUCH(name, bytes, write) \
  SIMT_CALL void name(void* address) { touch(address, bytes, write, __builtin_return_address(0)); }
#define SIMT_TOUCHES(bytes)                              \
  SIMT_TOUCH(__tsan_read##bytes, bytes, false)           \
  SIMT_TOUCH(__tsan_write##bytes, bytes, true)           \
  SIMT_TOUCH(__tsan_unaligned_read##bytes, bytes, false) \
  SIMT_TOUCH(__tsan_unaligned_write##bytes, bytes, true) \
  SIMT_TOUCH(__tsan_volatile_read##bytes, bytes, false)  \
  SIMT_TOUCH(__tsan_volatile_write##bytes, bytes, true)

SIMT_TOUCHES(1)
SIMT_TOUCHES(2)
SIMT_TOUCHES(4)
SIMT_TOUCHES(8)
SIMT_TOUCHES(16)

SIMT_CALL void __tsan_read_range(void* address, size_t bytes) {
  touch(address, bytes, false, __builtin_return_address(0));
}
SIMT_CALL void __tsan_write_range(void* address, size_t bytes) {
  touch(address, bytes, true, __builtin_return_address(0));
}
SIMT_CALL void __tsan_vptr_update(void** address, void*) {
  touch(address, sizeof(void*), true, __builtin_return_address(0));
}
SIMT_CALL void __tsan_vptr_read(void**) {}
SIMT_CALL void __tsan_func_entry(void*) {}
SIMT_CALL void __tsan_func_exit() {}
SIMT_CALL void __tsan_init() {
  static const bool once = (simt::checker::install(), true);
  static_cast<void>(once);
}

#define SIMT_FETCH(bits, type, name, builtin)                                            \
  SIMT_CALL type __tsan_atomic##bits##_##name(volatile type* address, type value, int) { \
    return builtin(address, value, __ATOMIC_SEQ_CST);                                    \
  }
#define SIMT_EXCHANGE(bits, type, name)                                                          \
  SIMT_CALL int __tsan_atomic##bits##_##name(volatile type* address, type* expected, type value, \
                                             int, int) {                                         \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,        \
                                       __ATOMIC_SEQ_CST)                                         \
               ? 1                                                                               \
               : 0;                                                                              \
  }
#define SIMT_ATOMICS(bits, type)                                                                   \
  SIMT_CALL type __tsan_atomic##bits##_load(const volatile type* address, int) {                   \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  SIMT_CALL void __tsan_atomic##bits##_store(volatile type* address, type value, int) {            \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  SIMT_FETCH(bits, type, exchange, __atomic_exchange_n)                                            \
  SIMT_FETCH(bits, type, fetch_add, __atomic_fetch_add)                                            \
  SIMT_FETCH(bits, type, fetch_sub, __atomic_fetch_sub)                                            \
  SIMT_FETCH(bits, type, fetch_and, __atomic_fetch_and)                                            \
  SIMT_FETCH(bits, type, fetch_or, __atomic_fetch_or)                                              \
  SIMT_FETCH(bits, type, fetch_xor, __atomic_fetch_xor)                                            \
  SIMT_FETCH(bits, type, fetch_nand, __atomic_fetch_nand)                                          \
  SIMT_EXCHANGE(bits, type, compare_exchange_strong)                                               \
  SIMT_EXCHANGE(bits, type, compare_exchange_weak)                                                 \
  SIMT_CALL type __tsan_atomic##bits##_compare_exchange_val(volatile type* address, type expected, \
                                                            type value, int, int) {                \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST,                \
                                __ATOMIC_SEQ_CST);                                                 \
    return expected;                                                                               \
  }

SIMT_ATOMICS(8, uint8_t)
SIMT_ATOMICS(16, uint16_t)
SIMT_ATOMICS(32, uint32_t)
SIMT_ATOMICS(64, uint64_t)

SIMT_CALL void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_CALL void __tsan_atomic_signal_fence(int) {}
